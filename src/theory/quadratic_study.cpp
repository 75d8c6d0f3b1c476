#include "covnoise/theory/quadratic_study.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace covnoise::theory {
namespace {

constexpr double kPlaneRate = 0.1;  // figure 4
constexpr std::int64_t kPlaneSteps = 500;

void check(const QuadraticOptions& o) {
  require(o.dimension >= 1, fmt::format("dimension {} must be at least 1", o.dimension));
  require(o.condition >= 1, fmt::format("condition {} must be at least 1", o.condition));
  require(o.iterations >= 1, fmt::format("iterations {} must be at least 1", o.iterations));
  require(o.trajectories >= 2,
          fmt::format("trajectories {} must be at least 2: a mean with a standard error needs two", o.trajectories));
  require(o.horizon >= o.iterations,
          fmt::format("horizon {} must not be below the iterations, {}", o.horizon, o.iterations));
  require(o.initial_loss > 0, fmt::format("initial loss {} must be positive", o.initial_loss));
  for (const double error : o.errors) require(error > 0, fmt::format("error {} must be positive", error));
}

Quadratic load_quadratic(const QuadraticOptions& options) {
  if (!options.matrix.empty()) return make_quadratic(read_matrix(options.matrix), options.matrix);
  const std::string text = options.spectrum.empty() ? fmt::format("log:{}:1", 1 / options.condition) : options.spectrum;
  return make_quadratic(rotated_diagonal(parse_spectrum(text, options.dimension), options.seed), "spectrum " + text);
}

StepSizes parse_rate(const QuadraticOptions& options, const Quadratic& quadratic) {
  const double largest = 1 / quadratic.lambda_max();
  if (options.rate == "theorem") {
    require(options.alpha_0 >= 0 && options.alpha_0 <= largest * (1 + 1e-12),
            fmt::format("alpha_0 {} must be at most 1/lambda_max = {:.6g}", options.alpha_0, largest));
    return StepSizes::theorem(quadratic, options.alpha_0 > 0 ? options.alpha_0 : largest);
  }
  char* end = nullptr;
  const double alpha = std::strtod(options.rate.c_str(), &end);
  require(end != options.rate.c_str() && *end == '\0' && alpha > 0 && alpha < 2 * largest,
          fmt::format("rate '{}' must be 'theorem' or a number between 0 and 2/lambda_max = {:.6g}", options.rate,
                      2 * largest));
  return StepSizes::constant(alpha);
}

at::Tensor start_of_loss(const Quadratic& quadratic, double loss, std::uint64_t seed) {
  const at::Tensor direction = normals({quadratic.dimension()}, seed, 1);
  return direction * at::sqrt(loss / quadratic.losses(direction.unsqueeze(1)).squeeze(0));
}

QuadraticResult measure(const std::string& name, const QuadraticStudy& study) {
  QuadraticResult result;
  result.name = name;
  result.factor = noise_factor(name, study.quadratic);
  result.trace = result.factor.square().sum().item<double>();
  result.curvature = noise_curvature(study.quadratic, result.factor);
  const auto losses = exact_losses(study.quadratic, result.factor, study.steps, study.theta_0, study.options.horizon);
  result.reached = steps_to_reach(losses, study.errors);
  result.steps = log_spaced_steps(study.options.horizon, 180);
  for (const auto step : result.steps) result.exact.push_back(losses[static_cast<std::size_t>(step)]);
  if (study.steps.decaying()) {
    result.bound = theorem_bound(study.quadratic, result.factor, study.steps, study.options.initial_loss);
  }
  SimulationOptions simulation;
  simulation.trajectories = result.trace > 0 ? study.options.trajectories : 2;  // without noise all are the same
  simulation.seed = study.options.seed;
  simulation.record = log_spaced_steps(study.options.iterations, 24);
  result.simulated = simulate_losses(study.quadratic, result.factor, study.steps, study.theta_0, simulation);
  return result;
}

/// Mean loss after one step of size 1/lambda_max from the minimum, over many draws.
MeanLosses one_step(const QuadraticStudy& study, const at::Tensor& factor) {
  SimulationOptions simulation;
  simulation.trajectories = 65536;
  simulation.seed = study.options.seed;
  simulation.record = {1};
  return simulate_losses(study.quadratic, factor, StepSizes::constant(1 / study.quadratic.lambda_max()),
                         at::zeros({study.quadratic.dimension()}, at::kDouble), simulation);
}

FullOverDiagonal compare(const QuadraticStudy& study) {
  const Quadratic& q = study.quadratic;
  const at::Tensor full = noise_factor("full", q), diagonal = noise_factor("diagonal", q);
  FullOverDiagonal ratio;
  ratio.frobenius = noise_curvature(q, full) / noise_curvature(q, diagonal);
  const MeanLosses a = one_step(study, full), b = one_step(study, diagonal);
  ratio.one_step = a.mean[0] / b.mean[0];
  ratio.one_step_error = ratio.one_step * std::hypot(a.standard_error[0] / a.mean[0], b.standard_error[0] / b.mean[0]);
  ratio.asymptotic = asymptotic_constant(q, full) / asymptotic_constant(q, diagonal);
  const auto reached = [&](const at::Tensor& factor) {
    return steps_to_reach(exact_losses(q, factor, study.steps, study.theta_0, study.options.horizon), study.errors);
  };
  const auto full_steps = reached(full), diagonal_steps = reached(diagonal);
  for (std::size_t i = 0; i < study.errors.size(); ++i) {
    const bool both = full_steps[i] && diagonal_steps[i] && *diagonal_steps[i] > 0;
    ratio.steps.push_back(
        both ? std::optional<double>(static_cast<double>(*full_steps[i]) / static_cast<double>(*diagonal_steps[i]))
             : std::nullopt);
  }
  for (int i = 1; i <= 199; ++i) {
    const double alpha = i / 100.0;
    ratio.alpha.push_back(alpha);
    ratio.stationary.push_back(stationary_loss(q, full, alpha / q.lambda_max()) /
                               stationary_loss(q, diagonal, alpha / q.lambda_max()));
  }
  return ratio;
}

/// Covariance that constant steps settle at: in the eigenbasis a^2 (C C^T)_ij / (1 - (1 - a l_i)(1 - a l_j)).
std::array<double, 3> stationary_covariance(const Quadratic& q, const at::Tensor& factor, double alpha) {
  const at::Tensor inner = at::matmul(q.eigenvectors.t(), factor), keep = 1 - alpha * q.eigenvalues;
  const at::Tensor scaled = alpha * alpha * at::matmul(inner, inner.t()) / (1 - at::outer(keep, keep));
  const at::Tensor sigma = at::matmul(at::matmul(q.eigenvectors, scaled), q.eigenvectors.t());
  return {sigma[0][0].item<double>(), sigma[0][1].item<double>(), sigma[1][1].item<double>()};
}

PlaneStudy study_plane(const QuadraticStudy& study) {
  PlaneStudy plane;
  const bool own = study.quadratic.dimension() == 2 && kPlaneRate * study.quadratic.lambda_max() < 2;
  const at::Tensor example = at::tensor({0.55, 0.45, 0.45, 0.55}, at::kDouble).view({2, 2});  // eigenvalues 1 and 0.1
  plane.quadratic = own ? study.quadratic : make_quadratic(example);
  plane.theta_0 = own ? study.theta_0 : at::tensor({3.2, 1.4}, at::kDouble);
  const StepSizes steps = StepSizes::constant(kPlaneRate);
  for (const char* name : {"full", "diagonal"}) {
    const at::Tensor factor = noise_factor(name, plane.quadratic);
    plane.runs.push_back(
        {name, simulate_trajectory(plane.quadratic, factor, steps, plane.theta_0, kPlaneSteps, study.options.seed),
         exact_losses(plane.quadratic, factor, steps, plane.theta_0, kPlaneSteps),
         stationary_loss(plane.quadratic, factor, kPlaneRate),
         stationary_covariance(plane.quadratic, factor, kPlaneRate)});
  }
  return plane;
}

}  // namespace

QuadraticStudy study_quadratic(const QuadraticOptions& options) {
  check(options);
  const Quadratic quadratic = load_quadratic(options);
  QuadraticStudy study{options,
                       quadratic,
                       start_of_loss(quadratic, options.initial_loss, options.seed),
                       parse_rate(options, quadratic),
                       options.errors,
                       {},
                       {},
                       {}};
  if (study.errors.empty()) {
    for (const double part : {0.1, 0.01, 0.001}) study.errors.push_back(part * options.initial_loss);
  }
  for (const auto& name : options.noise) study.results.push_back(measure(name, study));
  study.ratio = compare(study);
  study.plane = study_plane(study);
  return study;
}

}  // namespace covnoise::theory
