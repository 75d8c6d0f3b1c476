#include "covnoise/train/sgd.h"

#include "covnoise/ops/sgd_update.h"
#include "train/loop/clipping.h"

namespace covnoise {

Sgd::Sgd(FlatParameters& parameters, const SgdOptions& options)
    : parameters_(parameters),
      options_(options),
      momentum_(parameters.zeros()),
      decayed_(decay_mask(parameters, options.no_decay)) {}

at::Tensor Sgd::step(double lr, const StepNoise& noise, Placement placement) {
  const torch::NoGradGuard no_grad;
  auto [gradient, added, factor, left] = clip(parameters_.gradient(), noise, options_.clip_norm, options_.clip_noise);
  SgdUpdate update{lr,   options_.momentum, options_.weight_decay,
                   left, options_.nesterov, placement == Placement::kGradient};
  if (decayed_.defined() && options_.weight_decay > 0) {
    // c g + w theta where the decay holds: a pass of its own, before the fused one.
    gradient =
        at::addcmul(left.defined() ? gradient * left : gradient, parameters_.values(), decayed_, options_.weight_decay);
    if (left.defined() && added.defined()) added.values = added.values * left;
    update.weight_decay = 0;
    update.clip = at::Tensor();
  }
  sgd_update(parameters_.values(), gradient, momentum_, added, update);
  return factor;
}

std::vector<std::pair<std::string, at::Tensor>> Sgd::buffers() const { return {{"momentum", momentum_}}; }

}  // namespace covnoise
