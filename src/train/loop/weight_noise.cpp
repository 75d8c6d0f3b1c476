#include "train/loop/weight_noise.h"

#include <ATen/ATen.h>

#include <limits>

namespace covnoise {

void WeightNoise::set_next(const StepNoise& noise) {
  const at::NoGradGuard no_grad;
  next_ = noise.tensor();
  if (!next_.defined() || radius_ == 0) return;
  // Noise that is zero everywhere has no direction and stays zero.
  next_ = (next_ / next_.norm().clamp_min(std::numeric_limits<float>::min())).mul_(radius_);
}

WeightNoise::InNetwork::InNetwork(WeightNoise& noise) : noise_(noise), moved_(noise.next_.defined()) {
  if (!moved_) return;
  const at::NoGradGuard no_grad;
  auto& values = noise_.parameters_.values();
  if (!noise_.weights_.defined()) noise_.weights_ = at::empty_like(values);
  noise_.weights_.copy_(values);
  values.add_(noise_.next_);
}

WeightNoise::InNetwork::~InNetwork() {
  if (!moved_) return;
  const at::NoGradGuard no_grad;
  noise_.parameters_.values().copy_(noise_.weights_);
}

std::vector<std::pair<std::string, at::Tensor>> WeightNoise::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  if (!next_.defined()) return state;
  for (const auto& entry : parameters_.entries())
    state.emplace_back("noise.weights." + entry.name, parameters_.view(next_, entry));
  return state;
}

std::vector<std::pair<std::string, at::Tensor>> WeightNoise::state_to_restore() {
  next_ = parameters_.zeros();
  return state();
}

}  // namespace covnoise
