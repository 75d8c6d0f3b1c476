#pragma once
#include "cuda/staging.cuh"
#include "cuda/types.h"

#include <algorithm>

// The tensor core kernel of conv_weight_gradient.h. As a product: rows are outputs, columns are input channels, once
// for each kernel offset, and the sum runs over positions, 16 at a time. Both operands are staged as they lie in memory
// and loaded transposed; an offset of the kernel is a distance in the stage.
namespace covnoise::cuda::weight_gradient_detail {

enum class Mode {
  kPartial,  ///< a slice writes its sum
  kFlush,    ///< a slice writes its sum and the sum of squares of its groups
  kSpatial,  ///< a slice writes its sum and its product of squared operands
};

struct Work {
  const void *x, *dz;
  float* workspace;  ///< [slice][sum, squares][kh][kw][O][C]
  Prologue prologue;
  int examples, height, width, channels, out_height, out_width, outputs;
  int kernel_height, stride_height, stride_width, padding_height, padding_width;
  int examples_per_group, slices, slices_per_group;  ///< kPartial: slices of a group; otherwise groups of a slice vary
  int chunk_examples, chunk_rows, bands;             ///< a chunk is some examples, or a band of one example's rows
  int example_steps;                                 ///< > 0: examples start at multiples of 16 positions (exact)
  int positions;                                     ///< of a chunk, a multiple of 16
  int x_rows, x_columns, x_plane, dz_plane;          ///< the stage; planes in bytes
  int stage_bytes;
};

struct Launch {
  Work work;
  dim3 grid;
  int shared_bytes;
};

constexpr int kStages = 2;

template <class T, bool kPreciseProducts, int kTileO, int kTileC, int kKernelWidth, int kKernelRows, int kWarpsO,
          int kWarpsC, Mode kMode, bool kPrologue>
struct Tile {
  using Type = T;
  static constexpr bool kPrecise = kPreciseProducts;
  static constexpr int kO = kTileO, kC = kTileC, kWidth = kKernelWidth;
  static constexpr int kRows = kKernelRows;  ///< kernel rows in one block: 1 (then the grid has them) or all
  static constexpr Mode mode = kMode;
  static constexpr bool prologue = kPrologue;
  static constexpr int kWarps = kRows * kWarpsO * kWarpsC, kThreads = 32 * kWarps;
  static constexpr int kM = kTileO / kWarpsO / 16, kN = kTileC / kWarpsC / 8;  // products of a warp
  static constexpr int kOPlanes = kTileO / kGroup<T>, kCPlanes = kTileC / kGroup<T>;
  static constexpr int kWarpsInO = kWarpsO, kWarpsInC = kWarpsC;
};

/// One warp's products.
template <class Tile>
struct Accumulators {
  float acc[Tile::kWidth][Tile::kM][Tile::kN][4];
  float sum[Tile::mode == Mode::kFlush ? Tile::kWidth : 1][Tile::kM][Tile::kN][4];
  float squares[Tile::mode == Mode::kPartial ? 1 : Tile::kWidth][Tile::kM][Tile::kN][4];

  template <class Visit>
  static __device__ __forceinline__ void for_each(const Visit& visit) {
#pragma unroll
    for (int f = 0; f < Tile::kWidth; ++f)
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
        for (int n = 0; n < Tile::kN; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) visit(f, m, n, i);
  }
  __device__ __forceinline__ void clear() {
    for_each([&](int f, int m, int n, int i) {
      acc[f][m][n][i] = 0;
      if constexpr (Tile::mode == Mode::kFlush) sum[f][m][n][i] = 0;
      if constexpr (Tile::mode != Mode::kPartial) squares[f][m][n][i] = 0;
    });
  }
  __device__ __forceinline__ void flush() {
    for_each([&](int f, int m, int n, int i) {
      const float a = acc[f][m][n][i];
      sum[f][m][n][i] += a;
      squares[f][m][n][i] = fmaf(a, a, squares[f][m][n][i]);
    });
  }
};

/// d = a b + (kFresh ? 0 : d)
template <bool kFresh, class Multiply>
__device__ __forceinline__ void accumulate(float (&d)[4], const Multiply& multiply) {
  const float zero[4] = {0, 0, 0, 0};
  if constexpr (kFresh)
    multiply(zero);
  else
    multiply(d);
}

/// 16 positions in bf16. `x` is this lane's row address: position lane % 16, plane lane / 16; `dz` likewise.
template <class Tile, bool kFresh>
__device__ __forceinline__ void step_bf16(Accumulators<Tile>& a, std::uint32_t x, std::uint32_t dz, int x_plane,
                                          int dz_plane) {
  std::uint32_t left[Tile::kM][4], left_squares[Tile::kM][4];
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
    load_matrices_transposed(left[m], dz + m * 2 * dz_plane);
    if constexpr (Tile::mode == Mode::kSpatial)
      for (int i = 0; i < 4; ++i) left_squares[m][i] = square_bf16x2(left[m][i]);
  }
#pragma unroll
  for (int f = 0; f < Tile::kWidth; ++f)
#pragma unroll
    for (int n = 0; n < Tile::kN; n += 2) {
      std::uint32_t right[4];
      load_matrices_transposed(right, x + f * 16 + n * x_plane);
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          auto& d = a.acc[f][m][n + h];
          accumulate<kFresh>(d,
                             [&](const float(&c)[4]) { multiply_bf16(d, left[m], right[2 * h], right[2 * h + 1], c); });
          if constexpr (Tile::mode == Mode::kSpatial) {
            auto& s = a.squares[f][m][n + h];
            multiply_bf16(s, left_squares[m], square_bf16x2(right[2 * h]), square_bf16x2(right[2 * h + 1]), s);
          }
        }
    }
}

/// d += a b with a rounded to tf32, or, precisely, a b = high high + high low + low high.
template <class Tile>
__device__ __forceinline__ void product_float(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                              std::uint32_t b1, const float (&c)[4]) {
  std::uint32_t high[4], low[4], b_high[2], b_low[2];
  if constexpr (Tile::kPrecise) {
#pragma unroll
    for (int i = 0; i < 4; ++i) split_tf32(a[i], high[i], low[i]);
    split_tf32(b0, b_high[0], b_low[0]);
    split_tf32(b1, b_high[1], b_low[1]);
    multiply_tf32(d, low, b_high[0], b_high[1], c);
    multiply_tf32(d, high, b_low[0], b_low[1], d);
    multiply_tf32(d, high, b_high[0], b_high[1], d);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) high[i] = round_tf32(a[i]);
    multiply_tf32(d, high, round_tf32(b0), round_tf32(b1), c);
  }
}

/// 8 positions in float. `x0`, `x1` are this lane's addresses of positions lane % 4 and lane % 4 + 4, channel lane / 4;
/// `dz` that of position lane % 4, output lane / 4.
template <class Tile, bool kFresh>
__device__ __forceinline__ void step_float(Accumulators<Tile>& a, std::uint32_t x0, std::uint32_t x1, std::uint32_t dz,
                                           int x_plane, int dz_plane) {
  std::uint32_t left[Tile::kM][4];
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
    for (int i = 0; i < 4; ++i) left[m][i] = load_word(dz + (m * 4 + (i % 2) * 2) * dz_plane + (i / 2) * 64);
#pragma unroll
  for (int f = 0; f < Tile::kWidth; ++f)
#pragma unroll
    for (int n = 0; n < Tile::kN; ++n) {
      const std::uint32_t b0 = load_word(x0 + f * 16 + 2 * n * x_plane);
      const std::uint32_t b1 = load_word(x1 + f * 16 + 2 * n * x_plane);
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m) {
        auto& d = a.acc[f][m][n];
        accumulate<kFresh>(d, [&](const float(&c)[4]) { product_float<Tile>(d, left[m], b0, b1, c); });
        if constexpr (Tile::mode == Mode::kSpatial) {
          std::uint32_t left_squares[4];
          for (int i = 0; i < 4; ++i) left_squares[i] = square_float(left[m][i]);
          auto& s = a.squares[f][m][n];
          product_float<Tile>(s, left_squares, square_float(b0), square_float(b1), s);
        }
      }
    }
}

/// What one slice works through: chunks of its examples, in order.
struct Slice {
  int begin, end;  ///< examples

  __device__ Slice(const Work& w, int index) {
    const int groups = w.examples / w.examples_per_group;
    if (w.slices_per_group > 0) {
      const int group = index / w.slices_per_group, part = index % w.slices_per_group, size = w.examples_per_group;
      begin = group * size + static_cast<int>(static_cast<long long>(part) * size / w.slices_per_group);
      end = group * size + static_cast<int>(static_cast<long long>(part + 1) * size / w.slices_per_group);
    } else {
      begin = static_cast<int>(static_cast<long long>(index) * groups / w.slices) * w.examples_per_group;
      end = static_cast<int>(static_cast<long long>(index + 1) * groups / w.slices) * w.examples_per_group;
    }
  }
};

struct Chunk {
  int example, band;

  __device__ int examples(const Work& w, const Slice& slice) const {
    int most = slice.end - example;
    if (w.example_steps == 0) most = min(most, w.examples_per_group - example % w.examples_per_group);
    return min(most, w.chunk_examples);
  }
  __device__ void advance(const Work& w, const Slice& slice) {
    if (++band < w.bands) return;
    band = 0;
    example += examples(w, slice);
  }
};

template <class Tile>
struct Block {
  const Work& w;
  char* shared;  ///< stages, then the table of positions
  std::uint32_t base;
  int kernel_row, first_output, first_channel;

  __device__ Patch x_patch(const Slice& slice, const Chunk& chunk) const {
    const bool all_rows = Tile::kRows > 1;
    const int row = chunk.band * w.chunk_rows * w.stride_height - w.padding_height + (all_rows ? 0 : kernel_row);
    return {w.x,
            w.height,
            w.width,
            w.channels,
            first_channel,
            chunk.example,
            chunk.examples(w, slice),
            w.chunk_examples,
            row,
            all_rows ? 1 : w.stride_height,
            w.x_rows,
            w.height,
            -w.padding_width,
            w.x_columns,
            w.x_rows * w.x_columns};
  }
  __device__ Patch dz_patch(const Slice& slice, const Chunk& chunk) const {
    const int example_positions = w.example_steps > 0 ? 16 * w.example_steps : w.chunk_rows * w.out_width;
    return {w.dz,
            w.out_height,
            w.out_width,
            w.outputs,
            first_output,
            chunk.example,
            chunk.examples(w, slice),
            w.chunk_examples,
            chunk.band * w.chunk_rows,
            1,
            w.chunk_rows,
            w.out_height,
            0,
            w.out_width,
            example_positions};
  }
  __device__ void load(const Slice& slice, const Chunk& chunk, int stage_index) const {
    const int x_at = stage_index * w.stage_bytes, dz_at = x_at + Tile::kCPlanes * w.x_plane;
    using T = typename Tile::Type;
    stage<T, Tile::kCPlanes>(x_patch(slice, chunk), base + x_at, shared + x_at, w.x_plane);
    stage<T, Tile::kOPlanes>(dz_patch(slice, chunk), base + dz_at, shared + dz_at, w.dz_plane);
  }
  __device__ int* table() const { return reinterpret_cast<int*>(shared + kStages * w.stage_bytes); }

  /// Byte offset of each position's input in a plane; positions that only fill up point at the first.
  __device__ void fill_table() const {
    const int row_step = Tile::kRows > 1 ? w.stride_height : 1, band = w.chunk_rows * w.out_width;
    const int example_positions = w.example_steps > 0 ? 16 * w.example_steps : band;
    for (int p = threadIdx.x; p < w.positions; p += Tile::kThreads) {
      const int e = min(p / example_positions, w.chunk_examples - 1), t = p - e * example_positions;
      const int row = t / w.out_width, column = t % w.out_width;
      const int at = t < band ? row * row_step * w.x_columns + column * w.stride_width : 0;
      table()[p] = (e * w.x_rows * w.x_columns + at) * 16;
    }
  }
};

template <class Tile, bool kFresh>
__device__ __forceinline__ void step(Accumulators<Tile>& a, const Work& w, const int* table, std::uint32_t x,
                                     std::uint32_t dz, int position) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(typename Tile::Type) == 2) {
    step_bf16<Tile, kFresh>(a, x + table[position + lane % 16], dz + position * 16, w.x_plane, w.dz_plane);
  } else {
    const int k = position + lane % 4;
    step_float<Tile, kFresh>(a, x + table[k], x + table[k + 4], dz + position * 16, w.x_plane, w.dz_plane);
    step_float<Tile, false>(a, x + table[k + 8], x + table[k + 12], dz + position * 16 + 128, w.x_plane, w.dz_plane);
  }
}

template <class Tile>
__device__ __forceinline__ void store(const Accumulators<Tile>& a, const Work& w, int kernel_row, int output,
                                      int channel) {
  const int lane = threadIdx.x % 32;
  const long long plane = static_cast<long long>(w.outputs) * w.channels;
  const long long weights = plane * w.kernel_height * Tile::kWidth;
  float* target = w.workspace + blockIdx.x * weights * (Tile::mode == Mode::kPartial ? 1 : 2);
  Accumulators<Tile>::for_each([&](int f, int m, int n, int i) {
    const int o = output + m * 16 + lane / 4 + (i / 2) * 8, c = channel + n * 8 + (lane % 4) * 2 + i % 2;
    if (o >= w.outputs || c >= w.channels) return;
    const long long at = (kernel_row * Tile::kWidth + f) * plane + static_cast<long long>(o) * w.channels + c;
    if constexpr (Tile::mode == Mode::kFlush)
      target[at] = a.sum[f][m][n][i];
    else
      target[at] = a.acc[f][m][n][i];
    if constexpr (Tile::mode != Mode::kPartial) target[weights + at] = a.squares[f][m][n][i];
  });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) kernel(const __grid_constant__ Work w) {
  extern __shared__ __align__(128) char shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / (Tile::kWarpsInO * Tile::kWarpsInC), warp_o = warp / Tile::kWarpsInC % Tile::kWarpsInO,
            warp_c = warp % Tile::kWarpsInC;
  const int tiles_c = (w.channels + Tile::kC - 1) / Tile::kC;
  const int kernel_row = Tile::kRows > 1 ? warp_row : blockIdx.z;
  const Block<Tile> block{w,
                          shared,
                          shared_address(shared),
                          kernel_row,
                          static_cast<int>(blockIdx.y) / tiles_c * Tile::kO,
                          static_cast<int>(blockIdx.y) % tiles_c * Tile::kC};
  // Rows that no copy writes must be zeros: what fills examples up to 16 positions.
  for (int i = threadIdx.x; i < kStages * w.stage_bytes / 16; i += Tile::kThreads)
    reinterpret_cast<uint4*>(shared)[i] = make_uint4(0, 0, 0, 0);
  block.fill_table();
  __syncthreads();

  // This lane's place in the planes, for the first position of the stage.
  std::uint32_t x_lane = (Tile::kRows > 1 ? kernel_row * w.x_columns * 16 : 0), dz_lane = 0;
  if constexpr (sizeof(typename Tile::Type) == 2) {
    x_lane += (warp_c * Tile::kN + lane / 16) * w.x_plane;
    dz_lane = (warp_o * Tile::kM * 2 + lane / 8 % 2) * w.dz_plane + (lane / 16 * 8 + lane % 8) * 16;
  } else {
    x_lane += (warp_c * Tile::kN * 2 + lane / 16) * w.x_plane + lane / 4 % 4 * 4;
    dz_lane = (warp_o * Tile::kM * 4 + lane / 16) * w.dz_plane + lane / 4 % 4 * 4 + lane % 4 * 16;
  }

  const Slice slice(w, blockIdx.x);
  Chunk chunk{slice.begin, 0}, ahead = chunk;
  Accumulators<Tile> a;
  a.clear();
  if (ahead.example < slice.end) block.load(slice, ahead, 0);
  commit_copies();
  bool fresh = true;
  for (int index = 0; chunk.example < slice.end; ++index) {
    wait_copies<0>();
    const int at = index % kStages * w.stage_bytes;
    if constexpr (Tile::prologue)
      apply_prologue<Tile::kCPlanes>(block.x_patch(slice, chunk), w.prologue, shared + at, w.x_plane);
    __syncthreads();
    ahead.advance(w, slice);
    if (ahead.example < slice.end) block.load(slice, ahead, (index + 1) % kStages);
    commit_copies();

    const std::uint32_t x = block.base + at + x_lane, dz = block.base + at + Tile::kCPlanes * w.x_plane + dz_lane;
    const int examples = chunk.examples(w, slice);
    const int runs = w.example_steps > 0 ? examples : 1;
    const int steps = w.example_steps > 0 ? w.example_steps : w.positions / 16;
    const bool ends = chunk.band + 1 == w.bands && (chunk.example + examples) % w.examples_per_group == 0;
    for (int run = 0; run < runs; ++run) {
      const int first = run * steps * 16;
      if (fresh)
        step<Tile, true>(a, w, block.table(), x, dz, first);
      else
        step<Tile, false>(a, w, block.table(), x, dz, first);
      fresh = false;
#pragma unroll 2
      for (int s = 1; s < steps; ++s) step<Tile, false>(a, w, block.table(), x, dz, first + s * 16);
      if constexpr (Tile::mode == Mode::kFlush) {
        if (ends) {
          a.flush();
          fresh = true;
        }
      }
    }
    chunk = ahead;
  }
  store<Tile>(a, w, kernel_row, block.first_output + warp_o * Tile::kM * 16,
              block.first_channel + warp_c * Tile::kN * 8);
}

/// Blocks of this tile that one multiprocessor holds with `shared_bytes` each.
template <class Tile>
int occupancy(int shared_bytes) {
  int blocks = 0;
  check(cudaFuncSetAttribute(kernel<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "shared memory of the weight gradient");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel<Tile>, Tile::kThreads, shared_bytes),
        "occupancy of the weight gradient");
  return std::max(1, blocks);
}

template <class Tile>
void run(const Launch& launch, cudaStream_t stream) {
  check(cudaFuncSetAttribute(kernel<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes),
        "shared memory of the weight gradient");
  kernel<Tile><<<launch.grid, Tile::kThreads, launch.shared_bytes, stream>>>(launch.work);
  check_launch("weight gradient");
}

/// What the plan needs to know of a compiled tile.
struct Compiled {
  int outputs, channels, kernel_width, kernel_rows;
  int element_bytes;
  int (*occupancy)(int shared_bytes);
  void (*run)(const Launch& launch, cudaStream_t stream);
};

template <class Tile>
Compiled compiled() {
  return {Tile::kO,        Tile::kC, Tile::kWidth, Tile::kRows, static_cast<int>(sizeof(typename Tile::Type)),
          occupancy<Tile>, run<Tile>};
}

}  // namespace covnoise::cuda::weight_gradient_detail
