#include "covnoise/theory/quadratic.h"
#include "theory/ensemble.h"

#include <cmath>

namespace covnoise::theory {
namespace {

void advance(Ensemble& ensemble, const Quadratic& quadratic, const at::Tensor& factor, double alpha,
             const RandomStream& stream) {
  ensemble.step(at::eye(quadratic.dimension(), at::kDouble) - alpha * quadratic.matrix, alpha * factor, stream);
}

}  // namespace

MeanLosses simulate_losses(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                           const at::Tensor& theta_0, const SimulationOptions& options) {
  TORCH_CHECK(options.trajectories > 1 && !options.record.empty(), "a mean needs trajectories and steps to record");
  Ensemble ensemble(theta_0, options.trajectories, options.dtype);
  MeanLosses result;
  std::int64_t k = 0;
  for (const std::int64_t record : options.record) {
    for (; k < record; ++k) {
      advance(ensemble, quadratic, factor, steps(k), {options.seed, Purpose::kAnalysis, static_cast<std::uint32_t>(k)});
    }
    const at::Tensor losses = quadratic.losses(ensemble.theta()).to(at::kDouble);
    result.steps.push_back(k);
    result.mean.push_back(losses.mean().item<double>());
    result.standard_error.push_back(losses.std().item<double>() / std::sqrt(static_cast<double>(options.trajectories)));
  }
  return result;
}

at::Tensor simulate_trajectory(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                               const at::Tensor& theta_0, std::int64_t iterations, std::uint64_t seed) {
  Ensemble ensemble(theta_0, 1);
  at::Tensor path = at::empty({iterations + 1, quadratic.dimension()}, at::kDouble);
  path[0].copy_(theta_0);
  for (std::int64_t k = 0; k < iterations; ++k) {
    advance(ensemble, quadratic, factor, steps(k), {seed, Purpose::kAnalysis, static_cast<std::uint32_t>(k)});
    path[k + 1].copy_(ensemble.theta().squeeze(1));
  }
  return path;
}

}  // namespace covnoise::theory
