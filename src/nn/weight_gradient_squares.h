#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

// Reference of the operators in covnoise/ops/weight_gradient.h by library calls.
namespace covnoise::reference {

/// Gradient of a convolution's weight, summed over examples, and the sum of squares of its sums over each
/// `examples_per_group` consecutive examples; with `spatial`, sum_i sum_t a_t^2 dz_t^2 instead.
std::tuple<at::Tensor, at::Tensor> weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz,
                                                           at::IntArrayRef weight_sizes, at::IntArrayRef stride,
                                                           at::IntArrayRef padding, at::IntArrayRef dilation,
                                                           std::int64_t groups, std::int64_t examples_per_group,
                                                           bool spatial);

/// The same for a linear layer: a [M, in], dz [M, out] -> [out, in] each.
std::tuple<at::Tensor, at::Tensor> linear_weight_gradient_squares(const at::Tensor& a, const at::Tensor& dz,
                                                                  std::int64_t examples_per_group);

}  // namespace covnoise::reference
