#pragma once
#include <cstdint>

// The vector kernels of ops/weight_gradient.h. Neither LibTorch nor standard templates may be used here: the files that
// include this are compiled for other instruction sets, and must not emit code that the rest of the program shares.
namespace covnoise::weight_gradient {

/// How one tile iterates over the packed operands: output positions (height x width) of the examples of groups. Steps
/// are in elements; groups follow each other as examples do; dz steps from column to column by the panel's width.
struct Walk {
  std::int64_t groups, examples, height, width;
  std::int64_t dz_example, dz_row;
  std::int64_t x_example, x_row, x_column;
};

/// A panel is a strip of output channels, the vector dimension of a tile: two vectors, one, or half of one.
enum PanelKind { kTwoVectors, kOneVector, kHalfVector, kPanelKinds };

/// Rows of a tile are input channels (or neighbouring columns of them), broadcast against the panel.
constexpr int kMaxRows = 8;

/// The inner loops for one instruction set. For a tile of `rows` x panel width, with acc = sum over positions of
/// x[row] * dz[lane]:
template <typename T>
struct Kernels {
  int lanes;       ///< of one vector
  int half_lanes;  ///< of half a vector; equal to `lanes` without half vectors

  /// After each group of examples: sums += acc, squares += acc^2.
  using SquareTile = void (*)(const Walk& walk, const T* dz, const T* x, T* sums, T* squares);
  SquareTile square_tile[kPanelKinds][kMaxRows + 1];
  int square_rows[kPanelKinds];  ///< maximum rows of a tile
  /// The same for groups of many positions: sums and squares are in memory, the registers are for acc alone.
  SquareTile long_square_tile[kPanelKinds][kMaxRows + 1];  ///< at most sum_rows
  int pixel_rows[kPanelKinds];  ///< the same if a group is one example of one position, which needs no accumulators

  /// part += acc, over all groups.
  using SumTile = void (*)(const Walk& walk, const T* dz, const T* x, T* part);
  SumTile sum_tile[kPanelKinds][kMaxRows + 1];
  int sum_rows[kPanelKinds];

  /// sums += part, squares += part^2, part = 0.
  void (*flush)(std::int64_t count, T* part, T* sums, T* squares);

  /// `planes` transposed pieces: packed[j * width + row] = source[row * stride + j] for j < count, row < rows, zero in
  /// rows <= row < width. Source and packed advance by their steps from piece to piece.
  struct Interleave {
    std::int64_t planes, source_step, packed_step;
    std::int64_t rows, stride, count, width;
  };
  void (*interleave)(const Interleave& shape, const T* source, T* packed);

  /// values = values^2.
  void (*square)(std::int64_t count, T* values);
};

template <typename T>
const Kernels<T>& portable_kernels();
template <typename T>
const Kernels<T>& avx2_kernels();
template <typename T>
const Kernels<T>& avx512_kernels();

}  // namespace covnoise::weight_gradient
