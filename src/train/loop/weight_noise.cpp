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

at::Tensor WeightNoise::weights() const {
  const at::NoGradGuard no_grad;
  return next_.defined() ? parameters_.values() + next_ : at::Tensor();
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
