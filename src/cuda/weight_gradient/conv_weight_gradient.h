#pragma once
#include "cuda/types.h"

#include <cstddef>

namespace covnoise::cuda {

/// A convolution of channels-last tensors: x [N, H, W, C], z [N, Ho, Wo, O], weight [O, C / groups, kh, kw].
struct Convolution {
  int examples = 0, height = 0, width = 0, channels = 0, outputs = 0;
  int kernel_height = 3, kernel_width = 3, stride_height = 1, stride_width = 1, padding_height = 1, padding_width = 1;
  int dilation_height = 1, dilation_width = 1, groups = 1;

  int out_height() const {
    return (height + 2 * padding_height - dilation_height * (kernel_height - 1) - 1) / stride_height + 1;
  }
  int out_width() const {
    return (width + 2 * padding_width - dilation_width * (kernel_width - 1) - 1) / stride_width + 1;
  }
  int kernel() const { return kernel_height * kernel_width; }
  std::size_t weights() const { return static_cast<std::size_t>(outputs) * (channels / groups) * kernel(); }
};

enum class GradientSquares {
  kNone,
  kGroups,   ///< of the contributions of `examples_per_group` consecutive examples (1: exact; the ghost batch: ghost)
  kSpatial,  ///< sum over examples and positions of dz^2 x^2; for a linear layer the exact squares
};

/// Weight gradient of a convolution and sums of squares in one pass. With D_i = sum_t dz_i,t x_i,t^T the contribution
/// of example i (t its output positions), and group j of `examples_per_group` consecutive examples,
///
///     gradient = sum_i D_i,      squares += sum_j (sum of D_i over group j)^2      both [O, C / groups, kh, kw].
///
/// A linear layer a [N, K], dz [N, O] is the 1x1 convolution of 1x1 images (`linear_shape`).
///
/// A block holds a tile of the weight in registers and passes over a slice of the examples; at the end of a group,
/// sum += acc, squares += acc^2, acc = 0. Slices go to the workspace and are added in order: no atomics, the same bits
/// in every run.
struct WeightGradient {
  Convolution shape;
  Scalar scalar = Scalar::kBFloat16;
  bool precise = false;  ///< for kFloat32: three tf32 products per product instead of one
  GradientSquares squares_of = GradientSquares::kNone;
  int examples_per_group = 1;
  const void *x = nullptr, *dz = nullptr;
  float* gradient = nullptr;
  float* squares = nullptr;   ///< added to
  void* workspace = nullptr;  ///< of weight_gradient_workspace() bytes
  int stage_bytes = 0;        ///< of shared memory for one stage, for tuning; 0: chosen by the plan
};

inline Convolution linear_shape(int examples, int inputs, int outputs) {
  return {examples, 1, 1, inputs, outputs, 1, 1, 1, 1, 0, 0};
}

std::size_t weight_gradient_workspace(const WeightGradient& call);
void weight_gradient(const WeightGradient& call, cudaStream_t stream);

/// Gradient of the bias of dz [rows, O]: gradient[o] = the sum over rows, squares[o] += the sum over groups of
/// consecutive rows of their squared sums. A batch is a whole number of groups.
void bias_gradient(const void* dz, Scalar scalar, int rows, int outputs, int rows_per_group, float* gradient,
                   float* squares, cudaStream_t stream);

}  // namespace covnoise::cuda
