#include "train/loop/weight_noise.h"

#include "covnoise/nn/internal/other_weights.h"

#include <ATen/ATen.h>

namespace covnoise {

void WeightNoise::set_next(const StepNoise& noise) {
  const at::NoGradGuard no_grad;
  next_ = noise.tensor();
  if (!next_.defined() || radius_ == 0) return;
  next_ = (next_ / length_of(next_)).mul_(radius_);
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
