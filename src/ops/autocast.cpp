#include "covnoise/ops/ghost_batch_norm.h"
#include "covnoise/ops/internal/optional_tensor.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

// Operators in an autocast region. On a GPU they take activations in low precision as they are; the CPU kernels compute
// in float32.
namespace covnoise {
namespace {

std::tuple<at::Tensor, at::Tensor> ghost_norm_autocast(const at::Tensor& x, const OptionalTensor& residual,
                                                       const at::Tensor& weight, const at::Tensor& bias,
                                                       at::Tensor running_mean, at::Tensor running_var,
                                                       std::int64_t ghost_batch, double momentum, double eps,
                                                       bool relu) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::ghost_batch_norm", "")
                             .typed<decltype(ghost_norm_autocast)>();
  const auto wide = [](const at::Tensor& tensor) {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CPU);
  };
  return op.call(wide(x), residual.has_value() ? OptionalTensor(wide(*residual)) : residual, wide(weight), wide(bias),
                 std::move(running_mean), std::move(running_var), ghost_batch, momentum, eps, relu);
}

at::Tensor convolution_autocast(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                std::int64_t groups) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  const auto wide = [](const at::Tensor& tensor) {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CPU);
  };
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::convolution", "")
                             .typed<decltype(convolution_autocast)>();
  return op.call(wide(x), wide(weight), bias.has_value() ? OptionalTensor(wide(*bias)) : bias, stride, padding,
                 dilation, groups);
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, AutocastCPU, m) {
  m.impl("ghost_batch_norm", ghost_norm_autocast);
  m.impl("convolution", convolution_autocast);
}

}  // namespace covnoise
