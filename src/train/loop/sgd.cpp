#include "covnoise/train/sgd.h"

#include "covnoise/ops/sgd_update.h"

namespace covnoise {

Sgd::Sgd(FlatParameters& parameters, const SgdOptions& options)
    : parameters_(parameters), options_(options), momentum_(parameters.zeros()) {}

void Sgd::step(double lr, const StepNoise& noise, Placement placement) {
  const torch::NoGradGuard no_grad;
  SgdUpdate update{lr, options_.momentum, options_.weight_decay,
                   {}, options_.nesterov, placement == Placement::kGradient};
  if (options_.clip_norm > 0) {
    const auto& gradient = parameters_.gradient();
    update.clip =
        gradient.norm().to(at::kDouble).reciprocal_().mul_(options_.clip_norm).clamp_max_(1).to(gradient.scalar_type());
  }
  sgd_update(parameters_.values(), parameters_.gradient(), momentum_, noise, update);
}

}  // namespace covnoise
