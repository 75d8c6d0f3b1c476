#pragma once
#include "covnoise/ops/convolution.h"

#include <functional>

namespace covnoise {

/// The input patches of a convolution: x [M, C, H, W] -> [M, K, T], K = C kernel kernel, T output positions.
at::Tensor unfold(const at::Tensor& x, at::IntArrayRef weight_sizes, const ConvolutionGeometry& geometry);

/// body(begin, end) for consecutive ranges of examples whose patches take about 16 MiB.
void for_each_unfolded_block(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                             const std::function<void(std::int64_t, std::int64_t)>& body);

/// Each example's gradient of the weight: x [M, C, H, W], dz [M, O, H', W'] -> [M, weight elements]. One row per
/// example: for blocks of examples only.
at::Tensor per_example_gradients(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                                 const ConvolutionGeometry& geometry);

}  // namespace covnoise
