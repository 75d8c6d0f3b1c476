#include "covnoise/train/sgd.h"

#include "covnoise/ops/sgd_update.h"

namespace covnoise {

Sgd::Sgd(FlatParameters& parameters, const SgdOptions& options)
    : parameters_(parameters), options_(options), momentum_(parameters.zeros()) {}

at::Tensor Sgd::step(double lr, const StepNoise& noise, Placement placement) {
  const torch::NoGradGuard no_grad;
  const auto& gradient = parameters_.gradient();
  SgdUpdate update{lr, options_.momentum, options_.weight_decay,
                   {}, options_.nesterov, placement == Placement::kGradient};
  StepNoise added = noise;
  if (options_.clip_norm > 0) {
    // The norm of the sum needs the noise itself, not only its variance.
    added = {noise.tensor(), {}, 1, {}};
    const auto sum = added.defined() ? gradient + added.values : gradient;
    update.clip =
        sum.norm().to(at::kDouble).reciprocal_().mul_(options_.clip_norm).clamp_max_(1).to(gradient.scalar_type());
  }
  sgd_update(parameters_.values(), gradient, momentum_, added, update);
  return update.clip;
}

}  // namespace covnoise
