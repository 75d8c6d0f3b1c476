#pragma once
#include "ops/weight_gradient/weight_gradient_kernels.h"

#include <type_traits>
#include <utility>

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

/// Calls step(0), step(1), ... step(kCount - 1), each with its index as a constant: arrays indexed by it stay in
/// registers, which the compiler's own unrolling does not achieve.
template <typename Step, int... kNumbers>
[[gnu::always_inline]] inline void unroll(const Step& step, std::integer_sequence<int, kNumbers...>) {
  (step(std::integral_constant<int, kNumbers>{}), ...);
}
template <int kCount, typename Step>
[[gnu::always_inline]] inline void unroll(const Step& step) {
  unroll(step, std::make_integer_sequence<int, kCount>{});
}
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a parameter takes none
#define COVNOISE_STEP(number) [&](auto number) __attribute__((always_inline))

/// R rows x V vectors of accumulators.
template <typename T, int kBytes, int V, int R>
struct Tile {
  using Vec = Vector<T, kBytes>;
  static constexpr Index kLanes = kBytes / sizeof(T);
  static constexpr Index kWidth = V * kLanes;
  static constexpr int kVectors = R * V;
  Vec value[kVectors];

  [[gnu::always_inline]] void clear() {
    unroll<kVectors>(COVNOISE_STEP(i) { value[i] = Vec{}; });
  }
  [[gnu::always_inline]] void load(const T* from) {
    unroll<kVectors>(COVNOISE_STEP(i) { value[i] = *reinterpret_cast<const Vec*>(from + i * kLanes); });
  }
  [[gnu::always_inline]] void store(T* to) const {
    unroll<kVectors>(COVNOISE_STEP(i) { *reinterpret_cast<Vec*>(to + i * kLanes) = value[i]; });
  }
  [[gnu::always_inline]] void add(const Tile& other) {
    unroll<kVectors>(COVNOISE_STEP(i) { value[i] += other.value[i]; });
  }
  [[gnu::always_inline]] void add_square(const Tile& other) {
    unroll<kVectors>(COVNOISE_STEP(i) { value[i] += other.value[i] * other.value[i]; });
  }
  [[gnu::always_inline]] void add_product(const T* dz, const T* x) {
    Vec strip[V];
    unroll<V>(COVNOISE_STEP(v) { strip[v] = *reinterpret_cast<const Vec*>(dz + v * kLanes); });
    unroll<kVectors>(COVNOISE_STEP(i) { value[i] += strip[i % V] * x[i / V]; });
  }
  [[gnu::always_inline]] void set_product(const T* dz, const T* x) {
    Vec strip[V];
    unroll<V>(COVNOISE_STEP(v) { strip[v] = *reinterpret_cast<const Vec*>(dz + v * kLanes); });
    unroll<kVectors>(COVNOISE_STEP(i) { value[i] = strip[i % V] * x[i / V]; });
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
  Tile<T, kBytes, V, R> sum, square;
  sum.load(sums);
  square.load(squares);
  const Index dz_group = walk.examples * walk.dz_example, x_group = walk.examples * walk.x_example;
  if (walk.examples * walk.height * walk.width == 1) {
    for (Index group = 0; group < walk.groups; ++group, dz += dz_group, x += x_group) {
      Tile<T, kBytes, V, R> product;
      product.set_product(dz, x);
      sum.add(product);
      square.add_square(product);
    }
  } else {
    for (Index group = 0; group < walk.groups; ++group, dz += dz_group, x += x_group) {
      Tile<T, kBytes, V, R> accumulator;
      accumulator.clear();
      accumulator.add_examples(walk, walk.examples, dz, x);
      sum.add(accumulator);
      square.add_square(accumulator);
    }
  }
  sum.store(sums);
  square.store(squares);
}

template <typename T, int kBytes, int V, int R>
void long_square_tile(const Walk& shared_walk, const T* dz, const T* x, T* sums, T* squares) {
  using Vec = Vector<T, kBytes>;
  const Walk walk = shared_walk;
  const Index dz_group = walk.examples * walk.dz_example, x_group = walk.examples * walk.x_example;
  for (Index group = 0; group < walk.groups; ++group, dz += dz_group, x += x_group) {
    Tile<T, kBytes, V, R> accumulator;
    accumulator.clear();
    accumulator.add_examples(walk, walk.examples, dz, x);
    unroll<R * V>(COVNOISE_STEP(i) {
      constexpr Index kLanes = kBytes / sizeof(T);
      *reinterpret_cast<Vec*>(sums + i * kLanes) += accumulator.value[i];
      *reinterpret_cast<Vec*>(squares + i * kLanes) += accumulator.value[i] * accumulator.value[i];
    });
  }
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

template <typename T>
void square(Index count, T* values) {
  for (Index i = 0; i < count; ++i) values[i] *= values[i];
}

/// 4 x 4 transpose: row r of `source` becomes column r of `packed`; rows from `rows` on are zero.
template <typename T>
[[gnu::always_inline]] inline void interleave4(const T* source, Index stride, Index rows, T* packed, Index width) {
  using Vec = Vector<T, 4 * sizeof(T)>;
  Vec row[4];
  unroll<4>(COVNOISE_STEP(r) { row[r] = r < rows ? *reinterpret_cast<const Vec*>(source + r * stride) : Vec{}; });
  const Vec low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Vec low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Vec high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Vec high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  *reinterpret_cast<Vec*>(packed) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  *reinterpret_cast<Vec*>(packed + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  *reinterpret_cast<Vec*>(packed + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  *reinterpret_cast<Vec*>(packed + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

/// One plane, 16 columns at a time: the source is read in whole cache lines, four rows at once (planes are often a
/// power of two apart and would evict each other), while the packed lines they fill stay in the L1 cache.
template <typename T>
[[gnu::always_inline]] inline void interleave_plane(const typename Kernels<T>::Interleave& s, const T* source,
                                                    T* packed) {
  constexpr Index kColumns = 16, kAhead = 3 * kColumns;
  const Index whole_width = s.width / 4 * 4, whole_count = s.count / 4 * 4;
  for (Index begin = 0; begin < whole_count; begin += kColumns) {
    const Index end = begin + kColumns < whole_count ? begin + kColumns : whole_count;
    for (Index row = 0; row < whole_width; row += 4) {
      for (Index r = row; r < row + 4; ++r) __builtin_prefetch(source + r * s.stride + begin + kAhead);
      for (Index j = begin; j < end; j += 4)
        interleave4<T>(source + row * s.stride + j, s.stride, s.rows - row, packed + j * s.width + row, s.width);
    }
  }
  for (Index j = 0; j < s.count; ++j)  // the remainder beside the 4 x 4 blocks
    for (Index r = j < whole_count ? whole_width : 0; r < s.width; ++r) {
      packed[j * s.width + r] = r < s.rows ? source[r * s.stride + j] : T(0);
    }
}

/// 8 kVectors rows of planes of one pixel.
template <typename T, int kVectors>
[[gnu::always_inline]] inline void copy_rows(const typename Kernels<T>::Interleave& s, const T* source, T* packed) {
  using Vec = Vector<T, 8 * sizeof(T)>;
  constexpr Index kAhead = 8, kLine = 64 / sizeof(T);
  for (Index plane = 0; plane < s.planes; ++plane, source += s.source_step, packed += s.packed_step) {
    unroll<(8 * kVectors + kLine - 1) / kLine>(
        COVNOISE_STEP(line) { __builtin_prefetch(source + kAhead * s.source_step + line * kLine); });
    unroll<kVectors>(
        COVNOISE_STEP(v) { *reinterpret_cast<Vec*>(packed + 8 * v) = *reinterpret_cast<const Vec*>(source + 8 * v); });
  }
}

/// Planes of one pixel: nothing to transpose.
template <typename T>
[[gnu::always_inline]] inline void copy_pixels(const typename Kernels<T>::Interleave& s, const T* source, T* packed) {
  Index r = 0;
  for (; r + 32 <= s.rows; r += 32) copy_rows<T, 4>(s, source + r, packed + r);
  for (; r + 8 <= s.rows; r += 8) copy_rows<T, 1>(s, source + r, packed + r);
  if (r == s.width) return;
  for (Index plane = 0; plane < s.planes; ++plane, source += s.source_step, packed += s.packed_step) {
    for (Index i = r; i < s.rows; ++i) packed[i] = source[i];
    for (Index i = s.rows; i < s.width; ++i) packed[i] = 0;
  }
}

/// Fetches the `size` elements at `address` into the L1 cache.
template <bool kForWriting, typename T>
[[gnu::always_inline]] inline void prefetch(const T* address, Index size) {
  for (Index i = 0; i < size; i += 64 / sizeof(T)) __builtin_prefetch(address + i, kForWriting);
}

template <typename T>
void interleave(const typename Kernels<T>::Interleave& shape, const T* source, T* packed) {
  const typename Kernels<T>::Interleave s = shape;
  if (s.count == 1 && s.stride == 1) return copy_pixels<T>(s, source, packed);
  // Small images are too short for the hardware prefetcher. The next call continues where this one ends.
  const bool small = s.stride < 64;
  for (Index plane = 0; plane < s.planes; ++plane, source += s.source_step, packed += s.packed_step) {
    prefetch<false>(source + s.planes * s.source_step, small ? s.rows * s.stride : 0);
    prefetch<true>(packed + s.planes * s.packed_step, small ? s.width * s.count : 0);
    interleave_plane<T>(s, source, packed);
  }
}

template <typename T, int kBytes, int V, int R>
void set_tiles(Kernels<T>& kernels, PanelKind kind) {
  kernels.square_tile[kind][R] = square_tile<T, kBytes, V, R>;
  kernels.long_square_tile[kind][R] = long_square_tile<T, kBytes, V, R>;
  kernels.sum_tile[kind][R] = sum_tile<T, kBytes, V, R>;
  if constexpr (R > 1) set_tiles<T, kBytes, V, R - 1>(kernels, kind);
}

/// `kHalfBytes` equal to `kBytes` means no half vectors. `kSquareVectors` and `kSumVectors` are the accumulators of a
/// tile, as many as the instruction set has registers for.
template <typename T, int kBytes, int kHalfBytes, int kSquareVectors, int kPixelVectors, int kSumVectors>
Kernels<T> make_kernels() {
  Kernels<T> kernels{};
  kernels.lanes = kBytes / sizeof(T);
  kernels.half_lanes = kHalfBytes / sizeof(T);
  set_tiles<T, kBytes, 2, kMaxRows>(kernels, kTwoVectors);
  set_tiles<T, kBytes, 1, kMaxRows>(kernels, kOneVector);
  set_tiles<T, kHalfBytes, 1, kMaxRows>(kernels, kHalfVector);
  for (int kind = 0; kind < kPanelKinds; ++kind) {
    const auto rows = [kind](int vectors) {
      const int most = kind == kTwoVectors ? vectors / 2 : vectors;
      return most < kMaxRows ? most : kMaxRows;
    };
    kernels.square_rows[kind] = rows(kSquareVectors);
    kernels.pixel_rows[kind] = rows(kPixelVectors);
    kernels.sum_rows[kind] = rows(kSumVectors);
  }
  kernels.flush = flush<T>;
  kernels.interleave = interleave<T>;
  kernels.square = square<T>;
  return kernels;
}

}  // namespace
}  // namespace covnoise::weight_gradient
