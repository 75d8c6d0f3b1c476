#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace covnoise {

/// How a convolution walks over its input; one number for each of the two directions.
struct ConvolutionGeometry {
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;
};

/// y = conv(x, weight) + bias in the type of x, whatever the weight's: x [M, C, H, W], weight [O, C / groups, kh, kw],
/// bias [O] or undefined. On a GPU channels-last, and by a kernel of our own where channels are few.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionGeometry& geometry);

/// Gradients of input and weight, those that are wanted (the other is undefined): the input's in the type of x, the
/// weight's in that of the weight.
std::tuple<at::Tensor, at::Tensor> convolution_gradients(const at::Tensor& dz, const at::Tensor& x,
                                                         const at::Tensor& weight, const ConvolutionGeometry& geometry,
                                                         bool input, bool kernel);

}  // namespace covnoise
