#include "covnoise/ops/convolution.h"

#include "covnoise/ops/internal/optional_tensor.h"
#include "ops/weight_gradient/weight_gradient_cpu.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace covnoise {
namespace {

at::Tensor convolution_cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                           at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                           std::int64_t groups) {
  return at::conv2d(x, weight, bias, stride, padding, dilation, groups);
}

std::tuple<at::Tensor, at::Tensor> gradients_cpu(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& weight,
                                                 at::IntArrayRef stride, at::IntArrayRef padding,
                                                 at::IntArrayRef dilation, std::int64_t groups, bool input,
                                                 bool kernel) {
  const bool ours = kernel && weight_gradient::faster_than_library(x, weight.sizes(), groups);
  auto dx = nothing_like(x), dweight = nothing_like(weight);
  if (input || (kernel && !ours)) {
    const auto result = at::convolution_backward(dz, x, weight, at::OptionalIntArrayRef{}, stride, padding, dilation,
                                                 false, {0, 0}, groups, {input, kernel && !ours, false});
    if (input) dx = std::get<0>(result);
    if (kernel && !ours) dweight = std::get<1>(result);
  }
  if (ours) dweight = weight_gradient::conv2d_gradient(x, dz, weight.sizes(), stride, padding, dilation, groups);
  return {dx, dweight};
}

}  // namespace

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionGeometry& geometry) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::convolution", "").typed<decltype(convolution_cpu)>();
  return op.call(x, weight, if_defined(bias), geometry.stride, geometry.padding, geometry.dilation, geometry.groups);
}

std::tuple<at::Tensor, at::Tensor> convolution_gradients(const at::Tensor& dz, const at::Tensor& x,
                                                         const at::Tensor& weight, const ConvolutionGeometry& geometry,
                                                         bool input, bool kernel) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::convolution_gradients", "")
                             .typed<decltype(gradients_cpu)>();
  const auto [dx, dweight] =
      op.call(dz, x, weight, geometry.stride, geometry.padding, geometry.dilation, geometry.groups, input, kernel);
  return {input ? dx : at::Tensor(), kernel ? dweight : at::Tensor()};
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "convolution(Tensor x, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups)"
      " -> Tensor");
  m.def(
      "convolution_gradients(Tensor dz, Tensor x, Tensor weight, int[] stride, int[] padding, int[] dilation, "
      "int groups, bool input, bool kernel) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) {
  m.impl("convolution", convolution_cpu);
  m.impl("convolution_gradients", gradients_cpu);
}

}  // namespace covnoise
