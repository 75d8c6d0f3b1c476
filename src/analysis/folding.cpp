#include "covnoise/analysis/hessian.h"
#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/linear.h"

#include <fmt/format.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

#include <set>

namespace covnoise {
namespace {

at::Tensor scale_of(const GhostBatchNorm2dImpl& norm) { return norm.weight * (norm.running_var + norm.eps()).rsqrt(); }

/// Into the convolution or linear layer before it. A scale s < 0 does not commute with a max-pool between them, but |s|
/// does: s pool(z) = sign(s) pool(|s| z). The sign stays in the normalisation then, as a constant.
void fold(const AccountedLayer& layer, GhostBatchNorm2dImpl& norm, bool pooled) {
  const torch::NoGradGuard no_grad;
  const auto scale = scale_of(norm);
  const auto factor = pooled ? scale.abs() : scale;
  auto weight = layer.weight_parameter(), bias = layer.bias_parameter();
  norm.bias.sub_(norm.running_mean * scale);
  if (bias.defined()) {
    norm.bias.add_(bias * scale);
    bias.zero_();
  }
  weight.mul_(weight.dim() == 4 ? factor.view({-1, 1, 1, 1}) : factor.view({-1, 1}));
  norm.become_shift(pooled ? scale.sign() : at::Tensor());
}

bool is_convolution_or_linear(torch::nn::Module& part) { return part.as<Conv2dImpl>() || part.as<LinearImpl>(); }

}  // namespace

std::vector<at::Tensor> fold_batch_norm(torch::nn::Module& module) {
  std::set<const at::TensorImpl*> gone;
  AccountedLayer* before = nullptr;
  bool pooled = false;
  module.apply([&](const std::string& name, torch::nn::Module& part) {
    if (is_convolution_or_linear(part)) before = dynamic_cast<AccountedLayer*>(&part), pooled = false;
    if (part.as<torch::nn::MaxPool2dImpl>()) pooled = true;
    auto* norm = dynamic_cast<GhostBatchNorm2dImpl*>(&part);
    if (!norm) return;
    require(before && before->weight_parameter().size(0) == norm->weight.size(0),
            fmt::format("cannot fold the normalisation {}: no convolution or linear layer of {} channels stands right "
                        "before it",
                        name, norm->weight.size(0)));
    fold(*before, *norm, pooled);
    gone.insert(norm->weight.unsafeGetTensorImpl());
    if (const auto bias = before->bias_parameter(); bias.defined()) gone.insert(bias.unsafeGetTensorImpl());
    before = nullptr;
  });
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters()) {
    if (gone.count(parameter.unsafeGetTensorImpl()) == 0) parameters.push_back(parameter);
  }
  return parameters;
}

}  // namespace covnoise
