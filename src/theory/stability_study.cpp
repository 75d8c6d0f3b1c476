#include "covnoise/theory/stability_study.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace covnoise::theory {
namespace {

void check(const StabilityOptions& o) {
  require(o.dimension >= 1, fmt::format("dimension {} must be at least 1", o.dimension));
  require(o.examples > o.dimension,
          fmt::format("{} examples in {} dimensions are too few: A would not be invertible", o.examples, o.dimension));
  require(o.condition >= 1, fmt::format("condition {} must be at least 1", o.condition));
  require(o.replacements >= 1, fmt::format("replacements {} must be at least 1", o.replacements));
  require(o.alpha > 0, fmt::format("alpha {} must be positive", o.alpha));
  require(o.process.dt > 0, fmt::format("dt {} must be positive", o.process.dt));
  require(o.process.trajectories >= 2 * o.dimension,
          fmt::format("{} trajectories are too few to estimate a covariance", o.process.trajectories));
  require(o.last_time > 0.01, fmt::format("last time {} must be above 0.01", o.last_time));
  for (const double lambda : o.lambdas) require(lambda > 0, fmt::format("lambda {} must be positive", lambda));
}

/// Gaussian examples of a given condition.
at::Tensor make_examples(const StabilityOptions& o, std::int64_t count, std::uint32_t number) {
  const auto spectrum = parse_spectrum(fmt::format("log:{}:1", 1 / o.condition), o.dimension);
  return at::matmul(normals({count, o.dimension}, o.seed, number), symmetric_root(rotated_diagonal(spectrum, o.seed)));
}

/// Two processes, the second one of every swap, under one kind of noise.
struct Pair {
  OrnsteinUhlenbeck original, swapped;
  Pair(const StabilityStudy& study, const std::string& noise)
      : original(study.A, stability_noise(noise, study.A), study.options.alpha),
        swapped(study.swapped, stability_noise(noise, study.swapped), study.options.alpha) {}

  Hellinger at_time(double t, const at::Tensor& theta_0) const {
    return hellinger(original.at_time(t, theta_0), swapped.at_time(t, theta_0));
  }
};

double largest(const at::Tensor& values) { return values.max().item<double>(); }

/// For t to 0 the covariances are alpha t C C^T and the means coincide: what remains is the shape of C C^T.
double limit_at_zero(const StabilityStudy& study, const std::string& noise) {
  const at::Tensor zero = at::zeros_like(study.theta_0);
  return largest(
      hellinger({zero, stability_noise(noise, study.A)}, {zero, stability_noise(noise, study.swapped)}).distance());
}

void add_point(StabilityCurve& curve, const Hellinger& h, std::int64_t swap) {
  const at::Tensor sorted = std::get<0>(at::sort(h.distance()));
  const auto quantile = [&](double q) {
    return sorted[std::llround(q * static_cast<double>(sorted.numel() - 1))].item<double>();
  };
  curve.worst.push_back(quantile(1));
  curve.high.push_back(quantile(0.95));
  curve.median.push_back(quantile(0.5));
  curve.low.push_back(quantile(0.05));
  curve.one.push_back(h.distance()[swap].item<double>());
  curve.shape.push_back(h.shape()[swap].item<double>());
  curve.centre.push_back(h.centre()[swap].item<double>());
}

std::vector<double> simulated_distances(const StabilityStudy& study, const std::string& noise) {
  ProcessOptions process = study.options.process;
  process.alpha = study.options.alpha;
  process.seed = study.options.seed;
  const auto samples = [&](const at::Tensor& A) {
    return simulate_process(A, symmetric_root(stability_noise(noise, A)), study.theta_0, study.simulated_times,
                            process);
  };
  const auto original = samples(study.A), swapped = samples(study.swapped[study.swap]);
  std::vector<double> distances;
  for (std::size_t i = 0; i < original.size(); ++i) {
    distances.push_back(hellinger(original[i], swapped[i]).distance().item<double>());
  }
  return distances;
}

void measure(StabilityStudy& study, const std::string& noise) {
  const Pair pair(study, noise);
  StabilityCurve curve;
  curve.noise = noise;
  std::vector<ScaledCurve> scaled;
  for (const double lambda : study.options.lambdas) scaled.push_back({noise, lambda, {}});
  for (const double t : study.times) {
    const Hellinger h = pair.at_time(t, study.theta_0);
    add_point(curve, h, study.swap);
    for (auto& s : scaled) s.worst.push_back(largest(h.distance(s.lambda)));
  }
  curve.at_zero = limit_at_zero(study, noise);
  curve.at_infinity = largest(pair.at_time(std::numeric_limits<double>::infinity(), study.theta_0).distance());
  curve.simulated = simulated_distances(study, noise);
  study.curves.push_back(std::move(curve));
  study.scaled.insert(study.scaled.end(), scaled.begin(), scaled.end());
}

/// X and the replacement examples: Gaussian, with the second moments of X if it is given.
std::array<at::Tensor, 2> load_examples(StabilityOptions& options) {
  if (options.data.empty()) {
    check(options);
    return {make_examples(options, options.examples, 1), make_examples(options, options.replacements, 2)};
  }
  const at::Tensor X = read_matrix(options.data);
  options.examples = X.size(0);
  options.dimension = X.size(1);
  check(options);
  return {X, at::matmul(normals({options.replacements, options.dimension}, options.seed, 2),
                        symmetric_root(second_moment(X)))};
}

double smallest_eigenvalue(const at::Tensor& matrices) {
  return std::get<0>(at::linalg_eigh(matrices)).min().item<double>();
}

std::vector<double> log_times(double first, double last, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(first * std::pow(last / first, i / (count - 1.0)));
  return times;
}

}  // namespace

StabilityStudy study_stability(const StabilityOptions& given) {
  StabilityStudy study{given, {}, {}, {}, 0, {}, {}, {}, {}};
  StabilityOptions& options = study.options;
  const auto [X, replacements] = load_examples(options);
  study.A = second_moment(X);
  study.swapped = swapped_second_moments(X, replacements);
  require(std::min(smallest_eigenvalue(study.A), smallest_eigenvalue(study.swapped)) > 1e-12,
          "X^T X / N is not positive definite for every swap; give more examples, or fewer columns");
  study.theta_0 = normals({options.dimension}, options.seed, 3);
  study.theta_0 = study.theta_0 * (options.start / study.theta_0.norm());
  study.swap = at::argmax(Pair(study, "full").at_time(1, study.theta_0).distance()).item<std::int64_t>();
  study.times = log_times(0.01, options.last_time, 61);
  const double dt = options.process.dt;
  for (const double t : log_times(0.1, options.simulate_until, 14)) {
    const double whole = dt * static_cast<double>(std::max<long long>(1, std::llround(t / dt)));
    if (study.simulated_times.empty() || whole > study.simulated_times.back()) study.simulated_times.push_back(whole);
  }
  for (const auto& noise : stability_noise_names()) measure(study, noise);
  return study;
}

}  // namespace covnoise::theory
