#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace covnoise {

/// Stride, padding, dilation and groups of a convolution, as in torch.nn.Conv2d.
struct ConvolutionGeometry {
  std::vector<std::int64_t> stride, padding, dilation;  ///< [height, width] each
  std::int64_t groups = 1;                              ///< of channels
};

/// y = conv(x, weight) + bias in the type of x, whatever the weight's: x [M, C, H, W], weight [O, C / groups, kh, kw],
/// bias [O] or undefined. On a GPU channels-last, with a kernel of our own for few channels.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionGeometry& geometry);

/// Gradients of the input (in the type of x) if `input` is set and of the weight (in the type of the weight) if
/// `kernel` is set; otherwise undefined.
std::tuple<at::Tensor, at::Tensor> convolution_gradients(const at::Tensor& dz, const at::Tensor& x,
                                                         const at::Tensor& weight, const ConvolutionGeometry& geometry,
                                                         bool input, bool kernel);

}  // namespace covnoise
