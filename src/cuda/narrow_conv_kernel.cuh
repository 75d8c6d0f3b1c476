#pragma once
#include "cuda/copy_engine.cuh"
#include "cuda/moments.cuh"
#include "cuda/staging.cuh"

#include <type_traits>

// The kernel of narrow_conv.h. As a product: rows are positions, columns are outputs, and the sum runs over 16 inputs
// of one tap at a time. The weights stay in shared memory.
namespace covnoise::cuda::narrow_detail {

constexpr int kM = 4, kWarpsM = 4, kPositions = 16 * kM * kWarpsM, kStages = 2;  // positions of a chunk

struct Work {
  const __nv_bfloat16* input;
  const void* weights;
  __nv_bfloat16* output;
  const __nv_bfloat16* addend;
  Prologue prologue;
  float *part_mean, *part_m2, *part_count;
  int examples, in_height, in_width, channels;  ///< the input of this operation
  int out_height, out_width;                    ///< its output
  int grid_height, grid_width, stride;          ///< positions: the output's, or with two outputs a side the input's
  int group_examples, parts;                    ///< blocks: `parts` for each group of examples
  int chunk_examples, chunk_rows, bands;
  int rows, columns, stage_bytes;  ///< of the stage
  int halo;                        ///< rows and columns before the first: 1, or 0
  bool engine;                     ///< whether the copy engine fills the stages
  CUtensorMap map;
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

/// A warp has kM x kN products of 16 positions and 8 outputs.
template <int kC, int kO, bool kTwoOutputs, bool kPrologue, bool kStatistics>
struct Narrow {
  static constexpr int kN = products_of(kO), kWarpsN = kO / (8 * kN), kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kPlanes = kC / 8, kRow = 2 * kC;  // bytes of a staged position
  static constexpr int kWeightBytes = 18 * kC * kO, kStagesAt = (kWeightBytes + 1023) / 1024 * 1024;

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
      copy_async<16>(weights + i * 16, static_cast<const char*>(w.weights) + i * 16);
  }

  /// One product step: 16 inputs of one tap. Loaded one step ahead of their use.
  struct Fragments {
    std::uint32_t a[kM][4], b[kN / 2][4];
  };

  /// Inputs 16 k to 16 k + 15 of the stage shifted by (row, column), and the weights of tap `tap`.
  __device__ __forceinline__ void load(Fragments& f, std::uint32_t stage, int tap, int row, int column, int k) const {
    const std::uint32_t shift = stage + (row * w.columns + column) * kRow;
    const std::uint32_t from =
        weights + ((tap * kPlanes + lane / 8 % 2) * kO + warp_n * kN * 8 + lane / 16 * 8 + lane % 8) * 16;
#pragma unroll
    for (int m = 0; m < kM; ++m) load_matrices(f.a[m], swizzled<kPlanes>(shift + rows_at[m], (k * 2 + lane / 16) * 16));
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) load_matrices(f.b[n], from + (k * 2 * kO + n * 16) * 16);
  }
  __device__ __forceinline__ void multiply(const Fragments& f) {
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int m = 0; m < kM; ++m)
        multiply_bf16(acc[m][n], f.a[m], f.b[n / 2][n % 2 * 2], f.b[n / 2][n % 2 * 2 + 1], acc[m][n]);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[m][n][i] = 0;
  }

  /// Output of position p of the chunk, relative to its first pixel; negative if there is none.
  __device__ __forceinline__ int pixel(const Patch& patch, int band, int p, int odd_row, int odd_column) const {
    const int first_row = band * w.chunk_rows;
    if constexpr (!kTwoOutputs) {  // whole rows, and whole examples: positions are pixels in order
      const int limit = w.bands > 1 ? min(w.chunk_rows, w.grid_height - first_row) * w.grid_width
                                    : patch.examples * w.grid_height * w.grid_width;
      return p < limit ? p : -1;
    }
    const int per_example = w.chunk_rows * w.grid_width;
    const int e = p / per_example, row = p % per_example / w.grid_width, column = p % w.grid_width;
    const int y = 2 * row + odd_row, x = 2 * column + odd_column;
    const bool exists = e < patch.examples && row + first_row < w.grid_height && y + 2 * first_row < w.out_height;
    return exists && x < w.out_width ? (e * w.out_height + y) * w.out_width + x : -1;
  }

  using Bytes = std::conditional_t<kN == 4, uint4, uint2>;  ///< a lane's outputs of one pixel
  union Outputs {
    std::uint32_t pairs[kN];
    Bytes bytes;
  };

  /// acc += the addend; all loads before the first use.
  __device__ __forceinline__ void add(const Patch& patch, int band, int odd_row, int odd_column, long long first) {
    Outputs loaded[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = pixel(patch, band, (warp_m * kM + m) * 16 + lane / 4 + 8 * h, odd_row, odd_column);
        loaded[m][h].bytes = at < 0 ? Bytes{} : __ldcs(reinterpret_cast<const Bytes*>(w.addend + first + at * kO));
      }
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          acc[m][n][2 * h] += __uint_as_float(loaded[m][h].pairs[n] << 16);
          acc[m][n][2 * h + 1] += __uint_as_float(loaded[m][h].pairs[n] & 0xffff0000u);
        }
  }

  __device__ __forceinline__ void store(const Patch& patch, int band, int odd_row, int odd_column) {
    const int first_row = band * w.chunk_rows * (kTwoOutputs ? 2 : 1);
    const long long first = (static_cast<long long>(patch.example) * w.out_height + first_row) * w.out_width * kO +
                            warp_n * kN * 8 + lane % 4 * 2 * kN;
    if (w.addend) add(patch, band, odd_row, odd_column, first);
    __nv_bfloat16* target = w.output + first;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = pixel(patch, band, (warp_m * kM + m) * 16 + lane / 4 + 8 * h, odd_row, odd_column);
        if (at < 0) continue;
        Outputs values;
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          const __nv_bfloat162 pair = __floats2bfloat162_rn(acc[m][n][2 * h], acc[m][n][2 * h + 1]);
          values.pairs[n] = *reinterpret_cast<const std::uint32_t*>(&pair);
        }
        *reinterpret_cast<Bytes*>(target + at * kO) = values.bytes;
        if constexpr (kStatistics) {
          float rounded[2 * kN];
#pragma unroll
          for (int n = 0; n < kN; ++n) {
            rounded[2 * n] = __uint_as_float(values.pairs[n] << 16);
            rounded[2 * n + 1] = __uint_as_float(values.pairs[n] & 0xffff0000u);
          }
          moments.add(rounded);
        }
      }
  }

  /// Positions (i, j) are pixels of the output.
  __device__ __forceinline__ void nine_taps(const Patch& patch, int band, std::uint32_t stage) {
    constexpr int kDeep = kC / 16;
    Fragments f[2];
    clear();
    load(f[0], stage, 0, 0, 0, 0);
#pragma unroll
    for (int step = 0; step < 9 * kDeep; ++step) {
      const int next = step + 1, tap = next / kDeep;
      if (next < 9 * kDeep) load(f[next % 2], stage, tap, tap / 3, tap % 3, next % kDeep);
      multiply(f[step % 2]);
    }
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
      for (int tap = 0; tap < 9; ++tap) {
        if ((tap / 3 != 1) != (odd / 2 == 1) || (tap % 3 != 1) != (odd % 2 == 1)) continue;
#pragma unroll
        for (int k = 0; k < kC / 16; ++k) {
          Fragments f;
          load(f, stage, tap, tap / 3 == 0 ? 1 : 0, tap % 3 == 0 ? 1 : 0, k);
          multiply(f);
        }
      }
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
  extern __shared__ __align__(1024) char shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = blockIdx.x / w.parts, part = blockIdx.x % w.parts;
  const std::uint32_t base = shared_address(shared);
  Kernel kernel{w, base, base + Kernel::kStagesAt, lane, warp / Kernel::kWarpsN, warp % Kernel::kWarpsN};
  kernel.first_example = group * w.group_examples;
  kernel.last_example = min(w.examples, kernel.first_example + w.group_examples);
  const int per_example = w.chunk_rows * w.grid_width, step = kTwoOutputs ? 1 : w.stride;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    const int p = (kernel.warp_m * kM + m) * 16 + lane % 16, e = p / per_example, t = p % per_example;
    const bool exists = e < w.chunk_examples;
    kernel.rows_at[m] =
        exists ? ((e * w.rows + t / w.grid_width * step) * w.columns + t % w.grid_width * step) * Kernel::kRow : 0;
  }
  const int chunks = (w.group_examples + w.chunk_examples - 1) / w.chunk_examples * w.bands;
  const int begin = static_cast<int>(static_cast<long long>(part) * chunks / w.parts);
  const int end = static_cast<int>(static_cast<long long>(part + 1) * chunks / w.parts);
  const std::uint32_t barriers = base + Kernel::kStagesAt + kStages * w.stage_bytes;
  const auto load = [&](int chunk, int index) {
    const int at = Kernel::kStagesAt + index % kStages * w.stage_bytes;
    if (w.engine) {
      if (threadIdx.x != 0) return;
      const Patch patch = kernel.patch(chunk);
      const std::uint32_t barrier = barriers + index % kStages * 8;
      expect_bytes(barrier, w.chunk_examples * w.rows * w.columns * Kernel::kRow);
      copy_box(base + at, w.map, barrier, 0, patch.first_column, patch.first_row, patch.example);
      return;
    }
    stage<__nv_bfloat16, Kernel::kPlanes>(kernel.patch(chunk), base + at, shared + at, 0);
  };
  if (w.engine) {
    if (threadIdx.x < kStages) init_barrier(barriers + threadIdx.x * 8);
    fence_copy_engine();
  } else {
    clear_stages(shared + Kernel::kStagesAt, kStages * w.stage_bytes);
  }
  __syncthreads();
  kernel.load_weights();
  if (begin < end) load(begin, 0);
  commit_copies();
  for (int chunk = begin; chunk < end; ++chunk) {
    const Patch patch = kernel.patch(chunk);
    const int at = (chunk - begin) % kStages * w.stage_bytes;
    wait_copies<0>();
    if (w.engine) wait_barrier(barriers + (chunk - begin) % kStages * 8, (chunk - begin) / kStages % 2);
    if constexpr (kPrologue) {
      apply_prologue<Kernel::kPlanes>(patch, w.prologue, shared + Kernel::kStagesAt + at, 0);
      fence_copy_engine();
    }
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

}  // namespace covnoise::cuda::narrow_detail
