#include "covnoise/analysis/hessian.h"
#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <set>

namespace covnoise {
namespace {

void fold(Conv2dImpl& convolution, GhostBatchNorm2dImpl& norm) {
  const torch::NoGradGuard no_grad;
  const auto scale = norm.weight * (norm.running_var + norm.eps()).rsqrt();
  norm.bias.sub_(norm.running_mean * scale);
  if (convolution.bias.defined()) {
    norm.bias.add_(convolution.bias * scale);
    convolution.bias.zero_();
  }
  convolution.weight.mul_(scale.view({-1, 1, 1, 1}));
  norm.become_shift();
}

}  // namespace

std::vector<at::Tensor> fold_batch_norm(torch::nn::Module& module) {
  std::set<const at::TensorImpl*> gone;
  Conv2dImpl* before = nullptr;
  module.apply([&](const std::string& name, torch::nn::Module& part) {
    if (auto* convolution = part.as<Conv2dImpl>()) before = convolution;
    auto* norm = dynamic_cast<GhostBatchNorm2dImpl*>(&part);
    if (!norm) return;
    require(before && before->weight.size(0) == norm->weight.size(0),
            fmt::format("cannot fold the normalisation {}: no convolution of {} channels stands right before it", name,
                        norm->weight.size(0)));
    fold(*before, *norm);
    gone.insert(norm->weight.unsafeGetTensorImpl());
    if (before->bias.defined()) gone.insert(before->bias.unsafeGetTensorImpl());
    before = nullptr;
  });
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters()) {
    if (gone.count(parameter.unsafeGetTensorImpl()) == 0) parameters.push_back(parameter);
  }
  return parameters;
}

}  // namespace covnoise
