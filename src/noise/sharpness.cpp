#include "noise/sharpness.h"

#include <ATen/ATen.h>

#include <limits>

namespace covnoise {

Sharpness::Sharpness(const torch::nn::Module& module, FlatParameters& parameters, double rho)
    : parameters_(parameters),
      buffers_(module.buffers()),
      rho_(rho),
      ascent_(parameters.zeros()),
      weights_(parameters.zeros()) {}

void Sharpness::set_ascent(const std::vector<at::Tensor>& gradients) {
  const auto views = parameters_.views(ascent_);
  for (std::size_t i = 0; i < views.size(); ++i) {
    auto view = views[i];
    gradients[i].defined() ? view.copy_(gradients[i]) : view.zero_();
  }
  // A gradient of zero gives no direction: the weights stay.
  ascent_.div_(ascent_.norm().clamp_min(std::numeric_limits<float>::min()));
}

Sharpness::InNetwork::InNetwork(Sharpness& sharpness) : sharpness_(sharpness) {
  const at::NoGradGuard no_grad;
  auto& values = sharpness_.parameters_.values();
  sharpness_.weights_.copy_(values);
  values.add_(sharpness_.ascent_, sharpness_.rho_);
  if (!sharpness_.buffers_.empty()) buffers_ = at::_foreach_add(sharpness_.buffers_, at::Scalar(0));
}

Sharpness::InNetwork::~InNetwork() {
  const at::NoGradGuard no_grad;
  sharpness_.parameters_.values().copy_(sharpness_.weights_);
  if (buffers_.empty()) return;
  at::_foreach_zero_(sharpness_.buffers_);
  at::_foreach_add_(sharpness_.buffers_, buffers_);
}

}  // namespace covnoise
