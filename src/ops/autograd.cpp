#include "covnoise/ops/ghost_batch_norm.h"
#include "covnoise/ops/internal/optional_tensor.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

// What autograd does with the operators: ghost batch normalisation has a derivative; the others say that they have none
// when a backward pass reaches them, instead of ending the graph without a word.
namespace covnoise {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct DifferentiableGhostNorm : torch::autograd::Function<DifferentiableGhostNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const OptionalTensor& residual,
                               const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& running_mean,
                               const at::Tensor& running_var, std::int64_t ghost_batch, double momentum, double eps,
                               bool relu) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    GhostNorm norm;
    norm.ghost_batch = ghost_batch, norm.momentum = momentum, norm.eps = eps, norm.relu = relu;
    const auto [y, statistics] =
        ghost_batch_norm(x, weight, bias, running_mean, running_var, norm, or_undefined(residual));
    context->save_for_backward({x, weight, statistics, relu ? y : at::Tensor()});
    context->saved_data["ghost_batch"] = ghost_batch;
    context->saved_data["relu"] = relu;
    context->saved_data["residual"] = residual.has_value();
    context->mark_non_differentiable({statistics});
    return {y, statistics};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    GhostNorm norm;
    norm.ghost_batch = context->saved_data["ghost_batch"].toInt();
    norm.relu = context->saved_data["relu"].toBool();
    const auto result = ghost_batch_norm_backward(gradients[0], saved[0], saved[3], saved[1], saved[2], norm,
                                                  context->saved_data["residual"].toBool(), {});
    const at::Tensor none;
    return {result.dx, result.dresidual, result.dweight, result.dbias, none, none, none, none, none, none};
  }
};

std::tuple<at::Tensor, at::Tensor> ghost_norm_autograd(const at::Tensor& x, const OptionalTensor& residual,
                                                       const at::Tensor& weight, const at::Tensor& bias,
                                                       at::Tensor running_mean, at::Tensor running_var,
                                                       std::int64_t ghost_batch, double momentum, double eps,
                                                       bool relu) {
  const auto result = DifferentiableGhostNorm::apply(x, residual, weight, bias, running_mean, running_var, ghost_batch,
                                                     momentum, eps, relu);
  return {result[0], result[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, Autograd, m) {
  m.impl("ghost_batch_norm", ghost_norm_autograd);
  for (const char* name :
       {"ghost_batch_norm_backward", "convolution", "convolution_gradients", "conv2d_weight_gradient_squares",
        "linear_weight_gradient_squares", "linear_weight_gradient", "bias_gradient_squares", "conv2d_moments",
        "linear_moments", "norm_group_sums", "group_variance", "sgd_update", "adamw_update", "fill_random",
        "fill_normal_of_variance", "sample_diagonal", "moment_totals", "load_images"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

}  // namespace covnoise
