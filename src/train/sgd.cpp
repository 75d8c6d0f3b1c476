#include "covnoise/train/sgd.h"

#include "covnoise/ops/sgd_update.h"

namespace covnoise {

Sgd::Sgd(FlatParameters& parameters, const SgdOptions& options)
    : parameters_(parameters), options_(options), momentum_(parameters.zeros()) {}

void Sgd::step(double lr, const at::Tensor& noise, Placement placement) {
  const torch::NoGradGuard no_grad;
  SgdUpdate update{lr, options_.momentum, options_.weight_decay,
                   1,  options_.nesterov, placement == Placement::kGradient};
  if (options_.clip_norm > 0) {
    const double norm = parameters_.gradient().norm().item<double>();
    if (norm > options_.clip_norm) update.gradient_factor = options_.clip_norm / norm;
  }
  sgd_update(parameters_.values(), parameters_.gradient(), momentum_, noise, update);
}

}  // namespace covnoise
