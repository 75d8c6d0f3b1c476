#include "covnoise/train/adamw.h"

#include "covnoise/ops/adamw_update.h"
#include "train/loop/clipping.h"

#include <torch/types.h>

namespace covnoise {

AdamW::AdamW(FlatParameters& parameters, const AdamWOptions& options)
    : parameters_(parameters),
      options_(options),
      first_(parameters.zeros()),
      second_(parameters.zeros()),
      decayed_(decay_mask(parameters, options.no_decay)) {}

at::Tensor AdamW::step(double lr, const StepNoise& noise, Placement placement) {
  const torch::NoGradGuard no_grad;
  const auto [gradient, added, factor, left] =
      clip(parameters_.gradient(), noise, options_.clip_norm, options_.clip_noise);
  AdamWUpdate update;
  update.lr = lr;
  update.beta1 = options_.beta1, update.beta2 = options_.beta2, update.eps = options_.eps;
  update.weight_decay = options_.weight_decay;
  update.decayed = decayed_;
  update.clip = left;
  update.noise_in_gradient = placement == Placement::kGradient;
  update.step = ++steps_;
  adamw_update(parameters_.values(), gradient, first_, second_, added, update);
  return factor;
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::buffers() const {
  return {{"exp_avg", first_}, {"exp_avg_sq", second_}};
}

}  // namespace covnoise
