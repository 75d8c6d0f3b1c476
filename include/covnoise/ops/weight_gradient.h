#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace covnoise {

/// Weight gradient of a convolution and its sums of squares, in one pass over the data and without a buffer of examples
/// x weights. With D_i = sum_t Dz_i,t a_i,t^T the contribution of example i, t its output positions:
///
///   returned           sum_i D_i                                         [O, C / groups, kh, kw]
///   added to squares   sum_j (sum of D_i over group j)^2                 as many elements, contiguous
///
/// A group is `examples_per_group` consecutive examples (1 for squares per example); the batch is a whole number of
/// groups. If `spatial`, the squares are sum_i sum_t Dz_i,t^2 a_i,t^2 instead. x [M, C, H, W], dz [M, O, Ho, Wo], float
/// or double; on a GPU also bfloat16, with squares and gradient in float. `stride`, `padding` and `dilation` are
/// [height, width] or one number. The result does not depend on the number of threads.
/// torch.ops.covnoise.conv2d_weight_gradient_squares.
at::Tensor conv2d_weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares,
                                          at::IntArrayRef weight_sizes, at::IntArrayRef stride, at::IntArrayRef padding,
                                          at::IntArrayRef dilation, std::int64_t groups,
                                          std::int64_t examples_per_group, bool spatial);

/// The same for a linear layer: a [M, K], dz [M, O]; the gradient [O, K]. With one example per group the squares are
/// (dz^2)^T a^2. torch.ops.covnoise.linear_weight_gradient_squares.
at::Tensor linear_weight_gradient_squares(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares,
                                          std::int64_t examples_per_group);

/// Gradient of a bias [O] of dz [M, O] or [M, O, Ho, Wo], in the type of `squares`, to which the squares are added as
/// above: per group, or per position if `spatial`. torch.ops.covnoise.bias_gradient_squares.
at::Tensor bias_gradient_squares(const at::Tensor& dz, at::Tensor& squares, std::int64_t examples_per_group,
                                 bool spatial);

/// Only the gradient, in the operands' type, but at least in float32.
/// torch.ops.covnoise.linear_weight_gradient.
at::Tensor linear_weight_gradient(const at::Tensor& a, const at::Tensor& dz);

}  // namespace covnoise
