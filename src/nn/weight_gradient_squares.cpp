#include "nn/weight_gradient_squares.h"

#include "nn/unfold.h"

#include <ATen/ATen.h>

namespace covnoise::reference {

std::tuple<at::Tensor, at::Tensor> weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz,
                                                           at::IntArrayRef weight_sizes, at::IntArrayRef stride,
                                                           at::IntArrayRef padding, at::IntArrayRef dilation,
                                                           std::int64_t groups, std::int64_t examples_per_group,
                                                           bool spatial) {
  const auto weight = at::empty(weight_sizes, x.options());
  const auto gradient_of = [&](const at::Tensor& input, const at::Tensor& derivative) {
    return std::get<1>(at::convolution_backward(derivative, input, weight, at::OptionalIntArrayRef{}, stride, padding,
                                                dilation, false, {0, 0}, groups, {false, true, false}));
  };
  if (spatial) return {gradient_of(x, dz), gradient_of(x.pow(2), dz.pow(2))};
  auto gradient = at::zeros(weight_sizes, x.options()), squares = at::zeros_like(gradient);
  if (examples_per_group == 1) {
    const ConvolutionGeometry geometry{stride.vec(), padding.vec(), dilation.vec(), groups};
    const std::int64_t block = std::max<std::int64_t>(1, (std::int64_t{1} << 24) / weight.numel());
    for (std::int64_t i = 0; i < x.size(0); i += block) {
      const auto rows =
          per_example_gradients(x.slice(0, i, i + block), dz.slice(0, i, i + block), weight_sizes, geometry);
      gradient.add_(rows.sum(0).view(weight_sizes));
      squares.add_(rows.pow(2).sum(0).view(weight_sizes));
    }
    return {gradient, squares};
  }
  for (std::int64_t i = 0; i < x.size(0); i += examples_per_group) {
    const auto part = gradient_of(x.narrow(0, i, examples_per_group), dz.narrow(0, i, examples_per_group));
    gradient.add_(part);
    squares.addcmul_(part, part);
  }
  return {gradient, squares};
}

std::tuple<at::Tensor, at::Tensor> linear_weight_gradient_squares(const at::Tensor& a, const at::Tensor& dz,
                                                                  std::int64_t examples_per_group) {
  if (examples_per_group == 1) return {dz.t().mm(a), dz.pow(2).t().mm(a.pow(2))};
  auto gradient = at::zeros({dz.size(1), a.size(1)}, a.options()), squares = at::zeros_like(gradient);
  for (std::int64_t i = 0; i < a.size(0); i += examples_per_group) {
    const auto part = dz.narrow(0, i, examples_per_group).t().mm(a.narrow(0, i, examples_per_group));
    gradient.add_(part);
    squares.addcmul_(part, part);
  }
  return {gradient, squares};
}

}  // namespace covnoise::reference
