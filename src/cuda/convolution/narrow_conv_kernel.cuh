#pragma once
#include "cuda/hopper/tma.cuh"
#include "cuda/staging.cuh"

// The kernel of narrow_conv.h. As a product: rows are positions, columns are outputs, and the sum runs over 32 bytes of
// inputs of one tap at a time: 16 in bf16, 8 in tf32. The weights stay in shared memory.
namespace covnoise::cuda::narrow_detail {

constexpr int kM = 4, kWarpsM = 4, kPositions = 16 * kM * kWarpsM, kStages = 2;  // positions of a chunk

struct Work {
  const void *input, *weights;
  void* output;
  int examples, in_height, in_width, channels;  ///< the input of this operation
  int out_height, out_width;                    ///< its output
  int grid_height, grid_width, stride;          ///< positions: the output's, or the input's with two outputs per side
  int chunk_examples, chunk_rows, bands;
  int rows, columns, stage_bytes;  ///< of the stage
  int halo;                        ///< rows and columns before the first: 1, or 0
  bool engine;                     ///< whether TMA fills the stages
  CUtensorMap map;
};

/// Column n of a warp's products is output channel 2 N q + 2 j + b, with n = 8 j + 2 q + b, N products, so
/// that the values of lane q are contiguous.
template <int kN>
__host__ __device__ constexpr int channel_of_column(int n) {
  return n / (8 * kN) * (8 * kN) + n % 8 / 2 * (2 * kN) + n % (8 * kN) / 8 * 2 + n % 2;
}
constexpr int products_of(int outputs) { return outputs == 16 ? 2 : 4; }

/// A warp has kM x kN products of 16 positions and 8 outputs.
template <class T, int kC, int kO, bool kTwoOutputs>
struct Narrow {
  static constexpr int kN = products_of(kO), kWarpsN = kO / (8 * kN), kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kRow = kC * sizeof(T);                   // bytes of a staged position
  static constexpr int kPlanes = kRow / 16, kDeep = kRow / 32;  // steps of a product
  static constexpr int kWeightBytes = 9 * kRow * kO, kStagesAt = (kWeightBytes + 1023) / 1024 * 1024;
  static constexpr bool kRounded = sizeof(T) == 4;  // floats, rounded to tf32 when they are loaded

  const Work& w;
  std::uint32_t weights, stages;
  int lane, warp_m, warp_n;
  std::uint32_t rows_at[kM];  ///< this lane's row of each product, in a stage
  float acc[kM][kN][4];

  __device__ Patch patch(int chunk) const {
    const int example = chunk / w.bands * w.chunk_examples, band = chunk % w.bands;
    return {w.input,
            w.in_height,
            w.in_width,
            w.channels,
            0,
            example,
            min(w.chunk_examples, w.examples - example),
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

  /// One product step: 32 bytes of inputs of one tap, loaded one step ahead of their use.
  struct Fragments {
    std::uint32_t a[kM][4], b[kN / 2][4];
  };

  /// Step k of the inputs of the stage shifted by (row, column), and the weights of tap `tap`.
  __device__ __forceinline__ void load(Fragments& f, std::uint32_t stage, int tap, int row, int column, int k) const {
    const std::uint32_t shift = stage + (row * w.columns + column) * kRow;
    const std::uint32_t from =
        weights + ((tap * kPlanes + lane / 8 % 2) * kO + warp_n * kN * 8 + lane / 16 * 8 + lane % 8) * 16;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      load_matrices(f.a[m], swizzled<kPlanes>(shift + rows_at[m], (k * 2 + lane / 16) * 16));
      if constexpr (kRounded) {
#pragma unroll
        for (int i = 0; i < 4; ++i) f.a[m][i] = round_tf32(f.a[m][i]);
      }
    }
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) load_matrices(f.b[n], from + (k * 2 * kO + n * 16) * 16);
  }
  __device__ __forceinline__ void multiply(const Fragments& f) {
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const std::uint32_t b0 = f.b[n / 2][n % 2 * 2], b1 = f.b[n / 2][n % 2 * 2 + 1];
        if constexpr (kRounded)
          multiply_tf32(acc[m][n], f.a[m], b0, b1, acc[m][n]);
        else
          multiply_bf16(acc[m][n], f.a[m], b0, b1, acc[m][n]);
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

  /// A lane's outputs of one pixel, which are contiguous.
  struct alignas(kN == 2 && !kRounded ? 8 : 16) Outputs {
    T values[2 * kN];
  };

  __device__ __forceinline__ void store(const Patch& patch, int band, int odd_row, int odd_column) const {
    const int first_row = band * w.chunk_rows * (kTwoOutputs ? 2 : 1);
    const long long first = (static_cast<long long>(patch.example) * w.out_height + first_row) * w.out_width * kO +
                            warp_n * kN * 8 + lane % 4 * 2 * kN;
    T* target = static_cast<T*>(w.output) + first;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = pixel(patch, band, (warp_m * kM + m) * 16 + lane / 4 + 8 * h, odd_row, odd_column);
        if (at < 0) continue;
        Outputs outputs;
#pragma unroll
        for (int i = 0; i < 2 * kN; ++i) outputs.values[i] = static_cast<T>(acc[m][i / 2][2 * h + i % 2]);
        *reinterpret_cast<Outputs*>(target + at * kO) = outputs;
      }
  }

  /// Positions (i, j) are pixels of the output.
  __device__ __forceinline__ void nine_taps(const Patch& patch, int band, std::uint32_t stage) {
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
        for (int k = 0; k < kDeep; ++k) {
          Fragments f;
          load(f, stage, tap, tap / 3 == 0 ? 1 : 0, tap % 3 == 0 ? 1 : 0, k);
          multiply(f);
        }
      }
      store(patch, band, odd / 2, odd % 2);
    }
  }
};

template <class T, int kC, int kO, bool kTwoOutputs>
__global__ void __launch_bounds__(Narrow<T, kC, kO, kTwoOutputs>::kThreads)
    narrow_kernel(const __grid_constant__ Work w) {
  using Kernel = Narrow<T, kC, kO, kTwoOutputs>;
  extern __shared__ __align__(1024) char shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::uint32_t base = shared_address(shared);
  Kernel kernel{w, base, base + Kernel::kStagesAt, lane, warp / Kernel::kWarpsN, warp % Kernel::kWarpsN};
  const int per_example = w.chunk_rows * w.grid_width, step = kTwoOutputs ? 1 : w.stride;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    const int p = (kernel.warp_m * kM + m) * 16 + lane % 16, e = p / per_example, t = p % per_example;
    const bool exists = e < w.chunk_examples;
    kernel.rows_at[m] =
        exists ? ((e * w.rows + t / w.grid_width * step) * w.columns + t % w.grid_width * step) * Kernel::kRow : 0;
  }
  const int chunks = (w.examples + w.chunk_examples - 1) / w.chunk_examples * w.bands;
  const int begin = static_cast<int>(static_cast<long long>(blockIdx.x) * chunks / gridDim.x);
  const int end = static_cast<int>(static_cast<long long>(blockIdx.x + 1) * chunks / gridDim.x);
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
    stage<T, Kernel::kPlanes, true>(kernel.patch(chunk), base + at, shared + at, 0);
  };
  if (w.engine) {
    if (threadIdx.x < kStages) init_barrier(barriers + threadIdx.x * 8);
    fence_async_proxy();
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
    __syncthreads();
    if (chunk + 1 < end) load(chunk + 1, chunk + 1 - begin);
    commit_copies();
    if constexpr (kTwoOutputs)
      kernel.four_outputs(patch, chunk % w.bands, kernel.stages + at);
    else
      kernel.nine_taps(patch, chunk % w.bands, kernel.stages + at);
  }
}

}  // namespace covnoise::cuda::narrow_detail
