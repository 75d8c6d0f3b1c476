#include "covnoise/theory/quadratic.h"
#include "theory/ensemble.h"

#include <ATen/ATen.h>

#include <cmath>

namespace covnoise::theory {

MeanLosses simulate_losses(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                           const at::Tensor& theta_0, const SimulationOptions& options) {
  TORCH_CHECK(options.trajectories > 1, "a mean with a standard error needs at least 2 trajectories");
  const auto blocks = static_cast<std::size_t>(ensemble_blocks(options.trajectories));
  struct Sums {
    double loss = 0, square = 0;
  };
  std::vector<std::vector<Sums>> sums(options.record.size(), std::vector<Sums>(blocks));
  // Squares relative to the loss at the start: no cancellation if all losses are nearly equal.
  const double origin = quadratic.losses(theta_0.unsqueeze(1)).item<double>();
  simulate_ensemble(
      theta_0, -quadratic.matrix, factor, [&](std::int64_t k) { return steps(k); },
      {options.trajectories, options.seed, options.record, options.dtype},
      [&](std::int64_t block, std::size_t i, const at::Tensor& theta) {
        const at::Tensor losses = quadratic.losses(theta).to(at::kDouble) - origin;
        sums[i][static_cast<std::size_t>(block)] = {losses.sum().item<double>(), losses.square().sum().item<double>()};
      });
  MeanLosses result;
  const double n = static_cast<double>(options.trajectories);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Sums total;
    for (const auto& part : sums[i]) total = {total.loss + part.loss, total.square + part.square};
    const double variance = std::max(0.0, (total.square - total.loss * total.loss / n) / (n - 1));
    result.steps.push_back(options.record[i]);
    result.mean.push_back(origin + total.loss / n);
    result.standard_error.push_back(std::sqrt(variance / n));
  }
  return result;
}

at::Tensor simulate_trajectory(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                               const at::Tensor& theta_0, std::int64_t iterations, std::uint64_t seed) {
  at::Tensor path = at::empty({iterations + 1, quadratic.dimension()}, at::kDouble);
  EnsembleOptions options{1, seed, {}, at::kDouble};
  for (std::int64_t k = 0; k <= iterations; ++k) options.record.push_back(k);
  simulate_ensemble(
      theta_0, -quadratic.matrix, factor, [&](std::int64_t k) { return steps(k); }, options,
      [&](std::int64_t, std::size_t i, const at::Tensor& theta) {
        path[static_cast<std::int64_t>(i)].copy_(theta.squeeze(1));
      });
  return path;
}

}  // namespace covnoise::theory
