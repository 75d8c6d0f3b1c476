#pragma once
#include "cuda/staging.cuh"
#include "cuda/tensor_core.cuh"

// One warp's share of the weight gradient: its tile of the weight in registers, and the products of 16 positions.
namespace covnoise::cuda::weight_gradient_detail {

enum class Mode {
  kPartial,  ///< a slice writes its sum
  kFlush,    ///< a slice writes its sum and the sum of squares of its groups
  kSpatial,  ///< a slice writes its sum and its product of squared operands
};

template <class T, bool kPreciseProducts, int kTileO, int kTileC, int kKernelWidth, int kKernelRows, int kWarpsO,
          int kWarpsC, Mode kMode>
struct Tile {
  using Type = T;
  static constexpr bool kPrecise = kPreciseProducts;
  static constexpr int kO = kTileO, kC = kTileC, kWidth = kKernelWidth;
  static constexpr int kRows = kKernelRows;  ///< kernel rows in one block: 1 (the others are in the grid) or all
  static constexpr Mode mode = kMode;
  static constexpr int kWarps = kRows * kWarpsO * kWarpsC, kThreads = 32 * kWarps;
  static constexpr int kM = kTileO / kWarpsO / 16, kN = kTileC / kWarpsC / 8;  // products of a warp
  static constexpr int kOPlanes = kTileO / kGroup<T>, kCPlanes = kTileC / kGroup<T>;
  static constexpr int kWarpsInO = kWarpsO, kWarpsInC = kWarpsC;
  /// Whether enough registers are left to load operands one step ahead.
  static constexpr int kSums = kMode == Mode::kPartial ? 1 : kMode == Mode::kSpatial ? 2 : 3;
  static constexpr bool kAhead = 4 * kSums * kWidth * kM * kN + 2 * (4 * kM + 2 * kWidth * kN) < 150;
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

/// 16 positions in bf16, loaded one step ahead of their use.
template <class Tile>
struct Fragments {
  std::uint32_t left[Tile::kM][4], right[Tile::kWidth][Tile::kN / 2][4];

  /// `x` is the address of this lane's position, lane % 16, and `group` 16 times its first group of channels; `dz` the
  /// address of the step's first position, to which this lane's `dz_lane` are relative.
  __device__ __forceinline__ void load(std::uint32_t x, std::uint32_t group, std::uint32_t dz,
                                       const std::uint32_t (&dz_lane)[Tile::kM]) {
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) load_matrices_transposed(left[m], dz + dz_lane[m]);
#pragma unroll
    for (int f = 0; f < Tile::kWidth; ++f)
#pragma unroll
      for (int n = 0; n < Tile::kN / 2; ++n)
        load_matrices_transposed(right[f][n], swizzled<Tile::kCPlanes>(x + f * 16 * Tile::kCPlanes, group + n * 32));
  }

  template <bool kFresh>
  __device__ __forceinline__ void multiply(Accumulators<Tile>& a) const {
    std::uint32_t left_squares[Tile::kM][4];
    if constexpr (Tile::mode == Mode::kSpatial) {
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) left_squares[m][i] = square_bf16x2(left[m][i]);
    }
#pragma unroll
    for (int f = 0; f < Tile::kWidth; ++f)
#pragma unroll
      for (int n = 0; n < Tile::kN; ++n) {
        const std::uint32_t b0 = right[f][n / 2][n % 2 * 2], b1 = right[f][n / 2][n % 2 * 2 + 1];
#pragma unroll
        for (int m = 0; m < Tile::kM; ++m) {
          auto& d = a.acc[f][m][n];
          accumulate<kFresh>(d, [&](const float(&c)[4]) { multiply_bf16(d, left[m], b0, b1, c); });
          if constexpr (Tile::mode == Mode::kSpatial) {
            auto& s = a.squares[f][m][n];
            multiply_bf16(s, left_squares[m], square_bf16x2(b0), square_bf16x2(b1), s);
          }
        }
      }
  }
};

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

}  // namespace covnoise::cuda::weight_gradient_detail
