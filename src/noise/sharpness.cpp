#include "noise/sharpness.h"

#include <ATen/ATen.h>

namespace covnoise {

Sharpness::Sharpness(const torch::nn::Module& module, FlatParameters& parameters, double rho)
    : parameters_(parameters), buffers_(module.buffers()), rho_(rho) {}

std::unique_ptr<OtherWeights> Sharpness::ascend(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  auto ascent = parameters_.zeros();
  const auto views = parameters_.views(ascent);
  for (std::size_t i = 0; i < views.size(); ++i) {
    auto view = views[i];
    if (gradients[i].defined()) view.copy_(gradients[i]);
  }
  ascent.div_(length_of(ascent));
  return std::make_unique<OtherWeights>(parameters_, parameters_.values().add(ascent, rho_), buffers_);
}

}  // namespace covnoise
