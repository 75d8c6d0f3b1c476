#include "covnoise/train/sgd.h"

namespace covnoise {

Sgd::Sgd(FlatParameters& parameters, const SgdOptions& options)
    : parameters_(parameters), options_(options), momentum_(parameters.zeros()) {}

void Sgd::step(double lr, const at::Tensor& noise, Placement placement) {
  const torch::NoGradGuard no_grad;
  auto& theta = parameters_.values();
  auto& d = parameters_.gradient();
  if (options_.clip_norm > 0) {
    const double norm = d.norm().item<double>();
    if (norm > options_.clip_norm) d.mul_(options_.clip_norm / norm);
  }
  if (noise.defined() && placement == Placement::kGradient) d.add_(noise);
  if (options_.weight_decay != 0) d.add_(theta, options_.weight_decay);
  if (options_.momentum != 0) {
    momentum_.mul_(options_.momentum).add_(d);
    theta.add_(options_.nesterov ? d.add_(momentum_, options_.momentum) : momentum_, -lr);
  } else {
    theta.add_(d, -lr);
  }
  if (noise.defined() && placement == Placement::kUpdate) theta.add_(noise, -lr);
}

}  // namespace covnoise
