#pragma once
#include "ops/weight_gradient_kernels.h"

#include <type_traits>

// One source for all instruction sets: included by weight_gradient_{portable,avx2,avx512}.cpp, which differ in their
// compiler flags and in the vector's size. Everything is in an unnamed namespace, so that no two of them share code.
namespace covnoise::weight_gradient {
namespace {

using Index = std::int64_t;

template <typename T, int kBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};
template <typename T, int kBytes>
using Vector = typename VectorOf<T, kBytes>::type;

/// R rows x V vectors of accumulators, in registers once everything is unrolled.
template <typename T, int kBytes, int V, int R>
struct Tile {
  using Vec = Vector<T, kBytes>;
  static constexpr Index kLanes = kBytes / sizeof(T);
  static constexpr Index kWidth = V * kLanes;
  Vec value[R][V];

  [[gnu::always_inline]] void clear() {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) value[r][v] = Vec{};
  }
  [[gnu::always_inline]] void load(const T* from) {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) value[r][v] = *reinterpret_cast<const Vec*>(from + r * kWidth + v * kLanes);
  }
  [[gnu::always_inline]] void store(T* to) const {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) *reinterpret_cast<Vec*>(to + r * kWidth + v * kLanes) = value[r][v];
  }
  [[gnu::always_inline]] void add(const Tile& other) {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) value[r][v] += other.value[r][v];
  }
  [[gnu::always_inline]] void add_square(const Tile& other) {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) value[r][v] += other.value[r][v] * other.value[r][v];
  }
  [[gnu::always_inline]] void add_product(const T* dz, const T* x) {
    Vec strip[V];
    for (int v = 0; v < V; ++v) strip[v] = *reinterpret_cast<const Vec*>(dz + v * kLanes);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) value[r][v] += strip[v] * x[r];
  }
  [[gnu::always_inline]] void add_examples(const Walk& walk, Index examples, const T* dz, const T* x) {
    for (Index example = 0; example < examples; ++example, dz += walk.dz_example, x += walk.x_example) {
      const T* dz_row = dz;
      const T* x_row = x;
      for (Index row = 0; row < walk.height; ++row, dz_row += walk.dz_row, x_row += walk.x_row)
        for (Index column = 0; column < walk.width; ++column)
          add_product(dz_row + column * kWidth, x_row + column * walk.x_column);
    }
  }
};

template <typename T, int kBytes, int V, int R>
void square_tile(const Walk& shared_walk, const T* dz, const T* x, T* sums, T* squares) {
  const Walk walk = shared_walk;  // a copy that no store can alias
  Tile<T, kBytes, V, R> sum, square, accumulator;
  sum.load(sums);
  square.load(squares);
  for (Index group = 0; group < walk.groups; ++group) {
    accumulator.clear();
    accumulator.add_examples(walk, walk.examples, dz, x);
    sum.add(accumulator);
    square.add_square(accumulator);
    dz += walk.examples * walk.dz_example;
    x += walk.examples * walk.x_example;
  }
  sum.store(sums);
  square.store(squares);
}

template <typename T, int kBytes, int V, int R>
void sum_tile(const Walk& shared_walk, const T* dz, const T* x, T* part) {
  const Walk walk = shared_walk;
  Tile<T, kBytes, V, R> accumulator;
  accumulator.load(part);
  accumulator.add_examples(walk, walk.groups * walk.examples, dz, x);
  accumulator.store(part);
}

template <typename T>
void flush(Index count, T* __restrict part, T* __restrict sums, T* __restrict squares) {
  for (Index i = 0; i < count; ++i) {
    sums[i] += part[i];
    squares[i] += part[i] * part[i];
    part[i] = 0;
  }
}

/// 4 x 4 transpose: row r of `source` becomes column r of `packed`.
template <typename T>
inline void interleave4(const T* source, Index stride, T* packed, Index width, bool square) {
  using Vec = Vector<T, 4 * sizeof(T)>;
  typedef Vector<typename std::conditional<sizeof(T) == 4, std::int32_t, std::int64_t>::type, 4 * sizeof(T)> Mask;
  Vec row[4];
  for (int r = 0; r < 4; ++r) {
    row[r] = *reinterpret_cast<const Vec*>(source + r * stride);
    if (square) row[r] *= row[r];
  }
  const Mask low{0, 4, 1, 5}, high{2, 6, 3, 7}, first{0, 1, 4, 5}, second{2, 3, 6, 7};
  const Vec low01 = __builtin_shuffle(row[0], row[1], low), high01 = __builtin_shuffle(row[0], row[1], high);
  const Vec low23 = __builtin_shuffle(row[2], row[3], low), high23 = __builtin_shuffle(row[2], row[3], high);
  *reinterpret_cast<Vec*>(packed) = __builtin_shuffle(low01, low23, first);
  *reinterpret_cast<Vec*>(packed + width) = __builtin_shuffle(low01, low23, second);
  *reinterpret_cast<Vec*>(packed + 2 * width) = __builtin_shuffle(high01, high23, first);
  *reinterpret_cast<Vec*>(packed + 3 * width) = __builtin_shuffle(high01, high23, second);
}

/// The part of a plane that is not made of 4 x 4 blocks: rows from `row`, columns from `column`.
template <typename T>
inline void interleave_rest(const typename Kernels<T>::Interleave& s, Index row, Index column, Index columns,
                            const T* source, T* packed) {
  for (Index j = column; j < columns; ++j)
    for (Index r = row; r < s.rows; ++r) {
      const T value = source[r * s.stride + j];
      packed[j * s.width + r] = s.square ? value * value : value;
    }
}

template <typename T>
void interleave(const typename Kernels<T>::Interleave& s, const T* source, T* packed) {
  const Index whole_rows = s.rows / 4 * 4, whole_count = s.count / 4 * 4;
  for (Index plane = 0; plane < s.planes; ++plane, source += s.source_step, packed += s.packed_step) {
    for (Index row = 0; row < whole_rows; row += 4)
      for (Index j = 0; j < whole_count; j += 4)
        interleave4(source + row * s.stride + j, s.stride, packed + j * s.width + row, s.width, s.square);
    interleave_rest<T>(s, whole_rows, 0, whole_count, source, packed);
    interleave_rest<T>(s, 0, whole_count, s.count, source, packed);
    for (Index j = 0; j < s.count && s.rows < s.width; ++j)
      for (Index r = s.rows; r < s.width; ++r) packed[j * s.width + r] = 0;
  }
}

template <typename T, int kBytes, int V, int R>
void set_tiles(Kernels<T>& kernels, PanelKind kind) {
  kernels.square_tile[kind][R] = square_tile<T, kBytes, V, R>;
  kernels.sum_tile[kind][R] = sum_tile<T, kBytes, V, R>;
  if constexpr (R > 1) set_tiles<T, kBytes, V, R - 1>(kernels, kind);
}

/// `kHalfBytes` equal to `kBytes`: no half vectors. `kSquareVectors` and `kSumVectors`: accumulators of a tile, as many
/// as the instruction set has registers for.
template <typename T, int kBytes, int kHalfBytes, int kSquareVectors, int kSumVectors>
Kernels<T> make_kernels() {
  Kernels<T> kernels{};
  kernels.lanes = kBytes / sizeof(T);
  kernels.half_lanes = kHalfBytes / sizeof(T);
  set_tiles<T, kBytes, 2, kMaxRows>(kernels, kTwoVectors);
  set_tiles<T, kBytes, 1, kMaxRows>(kernels, kOneVector);
  set_tiles<T, kHalfBytes, 1, kMaxRows>(kernels, kHalfVector);
  for (int kind = 0; kind < kPanelKinds; ++kind) {
    const int vectors = kind == kTwoVectors ? 2 : 1;
    kernels.square_rows[kind] = kSquareVectors / vectors < kMaxRows ? kSquareVectors / vectors : kMaxRows;
    kernels.sum_rows[kind] = kSumVectors / vectors < kMaxRows ? kSumVectors / vectors : kMaxRows;
  }
  kernels.flush = flush<T>;
  kernels.interleave = interleave<T>;
  return kernels;
}

}  // namespace
}  // namespace covnoise::weight_gradient
