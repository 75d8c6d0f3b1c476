#include "cuda/narrow_conv.h"

#include "cuda/moments.cuh"
#include "cuda/staging.cuh"

#include <algorithm>

namespace covnoise::cuda {
namespace {

constexpr int kM = 4, kWarpsM = 4, kPositions = 16 * kM * kWarpsM, kStages = 2;

struct Work {
  const __nv_bfloat16* input;
  const void* weights;
  __nv_bfloat16* output;
  Prologue prologue;
  float *part_mean, *part_m2, *part_count;
  int examples, in_height, in_width, channels;  ///< the input of this operation
  int out_height, out_width;                    ///< its output
  int grid_height, grid_width, stride;          ///< positions: the output's, or with two outputs a side the input's
  int group_examples, parts;                    ///< blocks: `parts` for each group of examples
  int chunk_examples, chunk_rows, bands;
  int rows, columns, plane, stage_bytes;  ///< of the stage
  int halo;                               ///< rows and columns before the first: 1, or 0
};

/// Accumulates one output's statistics over all positions of a thread, around the first value.
template <int kValues>
struct ThreadMoments {
  float count = 0, shift[kValues], sum[kValues], squares[kValues];

  __device__ __forceinline__ void add(const float (&values)[kValues]) {
    if (count == 0) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) shift[i] = values[i], sum[i] = 0, squares[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const float d = values[i] - shift[i];
      sum[i] += d;
      squares[i] = fmaf(d, d, squares[i]);
    }
    count += 1;
  }
};

/// Column n of a warp's products is output channel 2 N q + 2 j + b, with n = 8 j + 2 q + b, N products: so that lane
/// q's values lie together.
template <int kN>
__host__ __device__ constexpr int channel_of_column(int n) {
  return n / (8 * kN) * (8 * kN) + n % 8 / 2 * (2 * kN) + n % (8 * kN) / 8 * 2 + n % 2;
}
constexpr int products_of(int outputs) { return outputs == 16 ? 2 : 4; }

template <int kC, int kO, bool kTwoOutputs, bool kPrologue, bool kStatistics>
struct Narrow {
  static constexpr int kN = products_of(kO), kWarpsN = kO / (8 * kN), kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kPlanes = kC / 8, kWeightBytes = 9 * kC * kO * 2;

  const Work& w;
  std::uint32_t weights, stages;
  int lane, warp_m, warp_n;
  int first_example, last_example;  ///< of this block's group
  std::uint32_t rows_at[kM];        ///< this lane's row of each product, in a stage
  float acc[kM][kN][4];
  ThreadMoments<kStatistics ? 2 * kN : 1> moments;

  __device__ Patch patch(int chunk) const {
    const int example = first_example + chunk / w.bands * w.chunk_examples, band = chunk % w.bands;
    return {w.input,
            w.in_height,
            w.in_width,
            w.channels,
            0,
            example,
            min(w.chunk_examples, last_example - example),
            w.chunk_examples,
            band * w.chunk_rows * w.stride - w.halo,
            1,
            w.rows,
            w.in_height,
            -w.halo,
            w.columns,
            w.rows * w.columns};
  }

  __device__ void load_weights() const {
    for (int i = threadIdx.x; i < kWeightBytes / 16; i += kThreads)
      copy_async(weights + i * 16, static_cast<const char*>(w.weights) + i * 16, true);
  }

  /// acc += stage shifted by (row, column) times the weights of tap `tap`.
  __device__ __forceinline__ void add_tap(std::uint32_t stage, int tap, int row, int column) {
    const std::uint32_t shift = stage + (row * w.columns + column) * 16 + lane / 16 * w.plane;
    const std::uint32_t from =
        weights + ((tap * kPlanes + lane / 8 % 2) * kO + warp_n * kN * 8 + lane / 16 * 8 + lane % 8) * 16;
#pragma unroll
    for (int k = 0; k < kC / 16; ++k) {
      std::uint32_t a[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) load_matrices(a[m], shift + rows_at[m] + k * 2 * w.plane);
#pragma unroll
      for (int n = 0; n < kN; n += 2) {
        std::uint32_t b[4];
        load_matrices(b, from + (k * 2 * kO + n * 8) * 16);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) multiply_bf16(acc[m][n + h], a[m], b[2 * h], b[2 * h + 1], acc[m][n + h]);
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[m][n][i] = 0;
  }

  /// Output of position p of the chunk, as an index of pixels; negative if there is none.
  __device__ __forceinline__ long long pixel(const Patch& patch, int band, int p, int odd_row, int odd_column) const {
    const int first_row = band * w.chunk_rows;
    if constexpr (!kTwoOutputs) {  // whole rows, and whole examples: positions are pixels in order
      const int limit = w.bands > 1 ? min(w.chunk_rows, w.grid_height - first_row) * w.grid_width
                                    : patch.examples * w.grid_height * w.grid_width;
      return p < limit ? (static_cast<long long>(patch.example) * w.out_height + first_row) * w.out_width + p : -1;
    }
    const int per_example = w.chunk_rows * w.grid_width;
    const int e = p / per_example, row = first_row + p % per_example / w.grid_width, column = p % w.grid_width;
    const int y = 2 * row + odd_row, x = 2 * column + odd_column;
    if (e >= patch.examples || row >= w.grid_height || y >= w.out_height || x >= w.out_width) return -1;
    return (static_cast<long long>(patch.example + e) * w.out_height + y) * w.out_width + x;
  }

  __device__ __forceinline__ void store(const Patch& patch, int band, int odd_row, int odd_column) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const long long at = pixel(patch, band, (warp_m * kM + m) * 16 + lane / 4 + 8 * h, odd_row, odd_column);
        if (at < 0) continue;
        __nv_bfloat162 values[kN];
#pragma unroll
        for (int n = 0; n < kN; ++n) values[n] = __floats2bfloat162_rn(acc[m][n][2 * h], acc[m][n][2 * h + 1]);
        __nv_bfloat16* target = w.output + at * kO + warp_n * kN * 8 + lane % 4 * 2 * kN;
        if constexpr (kN == 4)
          *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(values);
        else
          *reinterpret_cast<uint2*>(target) = *reinterpret_cast<const uint2*>(values);
        if constexpr (kStatistics) {
          float rounded[2 * kN];
#pragma unroll
          for (int n = 0; n < kN; ++n) {
            const float2 pair = __bfloat1622float2(values[n]);
            rounded[2 * n] = pair.x, rounded[2 * n + 1] = pair.y;
          }
          moments.add(rounded);
        }
      }
  }

  /// Positions (i, j) are pixels of the output.
  __device__ __forceinline__ void nine_taps(const Patch& patch, int band, std::uint32_t stage) {
    clear();
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) add_tap(stage, tap, tap / 3, tap % 3);
    store(patch, band, 0, 0);
  }

  /// The input gradient of stride 2. Positions are pixels (i, j) of dz; of the four pixels (2i, 2j) to (2i+1, 2j+1) of
  /// dx an even row takes kernel row 1 of dz's row i, an odd one kernel rows 0 and 2 of rows i + 1 and i; columns
  /// likewise.
  __device__ __forceinline__ void four_outputs(const Patch& patch, int band, std::uint32_t stage) {
#pragma unroll
    for (int odd = 0; odd < 4; ++odd) {
      clear();
#pragma unroll
      for (int kh = 0; kh < 3; ++kh)
#pragma unroll
        for (int kw = 0; kw < 3; ++kw)
          if ((kh != 1) == (odd / 2 == 1) && (kw != 1) == (odd % 2 == 1))
            add_tap(stage, kh * 3 + kw, kh == 0 ? 1 : 0, kw == 0 ? 1 : 0);
      store(patch, band, odd / 2, odd % 2);
    }
  }

  /// Joins the threads' statistics in a fixed order and writes those of this block.
  __device__ void write_statistics(float* shared) const {
#pragma unroll
    for (int i = 0; i < 2 * kN; ++i) {
      Moments m = moments_of(moments.count, moments.shift[i], moments.sum[i], moments.squares[i]);
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        const Moments other{__shfl_xor_sync(~0u, m.count, distance), __shfl_xor_sync(~0u, m.mean, distance),
                            __shfl_xor_sync(~0u, m.m2, distance)};
        // The same order in both lanes, so that both get the same bits.
        if (lane & distance) {
          Moments first = other;
          first.join(m);
          m = first;
        } else {
          m.join(other);
        }
      }
      if (lane < 4) {
        float* at = shared + (warp_m * kO + warp_n * kN * 8 + lane * 2 * kN + i) * 3;
        at[0] = m.count, at[1] = m.mean, at[2] = m.m2;
      }
    }
    __syncthreads();
    for (int o = threadIdx.x; o < kO; o += kThreads) {
      Moments total{0, 0, 0};
      for (int warp = 0; warp < kWarpsM; ++warp) {
        const float* at = shared + (warp * kO + o) * 3;
        total.join({at[0], at[1], at[2]});
      }
      w.part_mean[blockIdx.x * kO + o] = total.mean;
      w.part_m2[blockIdx.x * kO + o] = total.m2;
      if (o == 0) w.part_count[blockIdx.x] = total.count;
    }
  }
};

template <int kC, int kO, bool kTwoOutputs, bool kPrologue, bool kStatistics>
__global__ void __launch_bounds__(Narrow<kC, kO, kTwoOutputs, kPrologue, kStatistics>::kThreads)
    narrow_kernel(const __grid_constant__ Work w) {
  using Kernel = Narrow<kC, kO, kTwoOutputs, kPrologue, kStatistics>;
  extern __shared__ __align__(128) char shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = blockIdx.x / w.parts, part = blockIdx.x % w.parts;
  const std::uint32_t base = shared_address(shared);
  Kernel kernel{w, base, base + Kernel::kWeightBytes, lane, warp / Kernel::kWarpsN, warp % Kernel::kWarpsN};
  kernel.first_example = group * w.group_examples;
  kernel.last_example = min(w.examples, kernel.first_example + w.group_examples);
  const int per_example = w.chunk_rows * w.grid_width, step = kTwoOutputs ? 1 : w.stride;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    const int p = (kernel.warp_m * kM + m) * 16 + lane % 16, e = p / per_example, t = p % per_example;
    const bool exists = e < w.chunk_examples;
    kernel.rows_at[m] =
        exists ? ((e * w.rows + t / w.grid_width * step) * w.columns + t % w.grid_width * step) * 16 : 0;
  }
  const int chunks = (w.group_examples + w.chunk_examples - 1) / w.chunk_examples * w.bands;
  const int begin = static_cast<int>(static_cast<long long>(part) * chunks / w.parts);
  const int end = static_cast<int>(static_cast<long long>(part + 1) * chunks / w.parts);
  const auto load = [&](int chunk, int index) {
    const int at = Kernel::kWeightBytes + index % kStages * w.stage_bytes;
    stage<__nv_bfloat16, Kernel::kPlanes>(kernel.patch(chunk), base + at, shared + at, w.plane);
  };
  kernel.load_weights();
  if (begin < end) load(begin, 0);
  commit_copies();
  for (int chunk = begin; chunk < end; ++chunk) {
    const Patch patch = kernel.patch(chunk);
    const int at = (chunk - begin) % kStages * w.stage_bytes;
    wait_copies<0>();
    if constexpr (kPrologue)
      apply_prologue<Kernel::kPlanes>(patch, w.prologue, shared + Kernel::kWeightBytes + at, w.plane);
    __syncthreads();
    if (chunk + 1 < end) load(chunk + 1, chunk + 1 - begin);
    commit_copies();
    if constexpr (kTwoOutputs)
      kernel.four_outputs(patch, chunk % w.bands, kernel.stages + at);
    else
      kernel.nine_taps(patch, chunk % w.bands, kernel.stages + at);
  }
  if constexpr (kStatistics) {
    wait_copies<0>();
    __syncthreads();
    kernel.write_statistics(reinterpret_cast<float*>(shared));
  }
}

struct Compiled {
  int channels, outputs;  ///< of the product: the input's and the output's
  bool two_outputs, prologue, statistics;
  int threads;
  void (*kernel)(Work);
};

template <int kC, int kO, bool kTwo, bool kPrologue, bool kStatistics>
Compiled compiled() {
  return {kC,
          kO,
          kTwo,
          kPrologue,
          kStatistics,
          Narrow<kC, kO, kTwo, kPrologue, kStatistics>::kThreads,
          narrow_kernel<kC, kO, kTwo, kPrologue, kStatistics>};
}

const Compiled kCompiled[] = {
    compiled<16, 16, false, false, false>(), compiled<16, 16, false, false, true>(),
    compiled<16, 16, false, true, true>(),   compiled<16, 32, false, false, false>(),
    compiled<16, 32, false, false, true>(),  compiled<32, 32, false, false, false>(),
    compiled<32, 32, false, false, true>(),  compiled<32, 32, false, true, true>(),
    compiled<32, 64, false, false, false>(), compiled<32, 64, false, false, true>(),
    compiled<64, 64, false, false, false>(), compiled<64, 64, false, false, true>(),
    compiled<64, 64, false, true, true>(),   compiled<32, 16, true, false, false>(),
    compiled<64, 32, true, false, false>(),
};

const Compiled* find(const NarrowConvolution& call) {
  const int in = call.input_gradient ? call.outputs : call.channels;
  const int out = call.input_gradient ? call.channels : call.outputs;
  for (const Compiled& c : kCompiled)
    if (c.channels == std::max(in, 16) && c.outputs == out &&
        c.two_outputs == (call.input_gradient && call.stride == 2) && c.prologue == (call.scale != nullptr) &&
        c.statistics == call.statistics)
      return &c;
  return nullptr;
}

/// False if one row of the image is too long.
bool lay_out(Work& w, const Compiled& compiled) {
  const int most_rows = kPositions / w.grid_width;
  if (most_rows < 1) return false;
  w.chunk_rows = std::min(w.grid_height, most_rows);
  w.bands = divide_up(w.grid_height, w.chunk_rows);
  w.chunk_rows = divide_up(w.grid_height, w.bands);
  w.chunk_examples = w.bands > 1 ? 1 : std::min(w.group_examples, kPositions / (w.grid_height * w.grid_width));
  const int step = compiled.two_outputs ? 1 : w.stride, reach = compiled.two_outputs ? 2 : 3;
  w.rows = (w.chunk_rows - 1) * step + reach;
  w.columns = (w.grid_width - 1) * step + reach;
  const int planes = compiled.channels / 8;
  w.plane = divide_up(w.chunk_examples * w.rows * w.columns * 16, 128) * 128 + 128 / planes;
  w.stage_bytes = w.plane * planes;
  return true;
}

struct Plan {
  const Compiled* compiled = nullptr;
  Work work{};
  int groups = 0, shared_bytes = 0;
};

Plan make_plan(const NarrowConvolution& call) {
  Plan plan;
  plan.compiled = find(call);
  if (!plan.compiled) return plan;
  Work& w = plan.work;
  const bool backward = call.input_gradient;
  w.input = static_cast<const __nv_bfloat16*>(call.input);
  w.weights = call.weights;
  w.output = static_cast<__nv_bfloat16*>(call.output);
  w.prologue = {call.scale, call.shift, call.ghost_batch};
  w.part_mean = call.part_mean, w.part_m2 = call.part_m2, w.part_count = call.part_count;
  w.examples = call.examples;
  w.in_height = backward ? call.out_height() : call.height, w.in_width = backward ? call.out_width() : call.width;
  w.out_height = backward ? call.height : call.out_height(), w.out_width = backward ? call.width : call.out_width();
  w.channels = backward ? call.outputs : call.channels;
  w.stride = backward ? 1 : call.stride;
  w.halo = plan.compiled->two_outputs ? 0 : 1;
  w.grid_height = plan.compiled->two_outputs ? w.in_height : w.out_height;
  w.grid_width = plan.compiled->two_outputs ? w.in_width : w.out_width;
  w.group_examples = call.statistics ? call.ghost_batch : call.examples;
  plan.groups = divide_up(call.examples, w.group_examples);
  if (!lay_out(w, *plan.compiled)) plan.compiled = nullptr;
  if (!plan.compiled) return plan;
  plan.shared_bytes = 18 * plan.compiled->channels * plan.compiled->outputs + kStages * w.stage_bytes;
  int blocks = 0;
  check(cudaFuncSetAttribute(plan.compiled->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.shared_bytes),
        "shared memory of the convolution");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plan.compiled->kernel, plan.compiled->threads,
                                                      plan.shared_bytes),
        "occupancy of the convolution");
  const int chunks = divide_up(w.group_examples, w.chunk_examples) * w.bands;
  w.parts = std::clamp(std::max(1, blocks) * multiprocessors() / plan.groups, 1, chunks);
  return plan;
}

constexpr int kMostItems = 64;
struct PackedItems {
  PackedWeights items[kMostItems];
};

/// packed[tap][plane of 8 inputs][column][8 inputs]; blockIdx.y is the convolution.
__global__ void pack_kernel(const __grid_constant__ PackedItems all) {
  const PackedWeights& item = all.items[blockIdx.y];
  const int in = max(item.input_gradient ? item.outputs : item.channels, 16);
  const int out = item.input_gradient ? item.channels : item.outputs;
  auto* packed = static_cast<__nv_bfloat16*>(item.packed);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 9 * in * out; i += gridDim.x * blockDim.x) {
    const int k = i / (8 * out) % (in / 8) * 8 + i % 8, column = i / 8 % out, tap = i / (in * out);
    const int n = out == 16 ? channel_of_column<2>(column) : channel_of_column<4>(column);
    const int offset = item.input_gradient && item.stride == 1 ? 8 - tap : tap;
    const int o = item.input_gradient ? k : n, c = item.input_gradient ? n : k;
    packed[i] = __float2bfloat16(c < item.channels ? item.weight[(o * item.channels + c) * 9 + offset] : 0.0f);
  }
}

}  // namespace

bool narrow_conv_supports(const NarrowConvolution& call) { return make_plan(call).compiled != nullptr; }

int narrow_conv_parts(const NarrowConvolution& call) {
  const Plan plan = make_plan(call);
  if (!plan.compiled) throw std::runtime_error("narrow convolution: no kernel for these channels");
  return plan.work.parts;
}

void narrow_conv(const NarrowConvolution& call, cudaStream_t stream) {
  const Plan plan = make_plan(call);
  if (!plan.compiled) throw std::runtime_error("narrow convolution: no kernel for these channels");
  plan.compiled->kernel<<<plan.groups * plan.work.parts, plan.compiled->threads, plan.shared_bytes, stream>>>(
      plan.work);
  check_launch("narrow convolution");
}

std::size_t packed_weight_bytes(int channels, int outputs) {
  return static_cast<std::size_t>(18) * std::max(channels, 16) * outputs;
}

void pack_weights(const PackedWeights* items, int count, cudaStream_t stream) {
  for (int first = 0; first < count; first += kMostItems) {
    const int number = std::min(kMostItems, count - first);
    PackedItems all{};
    std::copy(items + first, items + first + number, all.items);
    pack_kernel<<<dim3(8, number), 256, 0, stream>>>(all);
    check_launch("pack_weights");
  }
}

}  // namespace covnoise::cuda
