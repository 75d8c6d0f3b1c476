#include "covnoise/theory/stability_study.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace covnoise::theory {
namespace {

void require(bool good, const std::string& message) {
  if (!good) throw Error(message);
}

void check(const StabilityOptions& o) {
  require(o.dimension >= 1, fmt::format("dimension {} must be at least 1", o.dimension));
  require(
      o.examples > o.dimension,
      fmt::format("{} examples in {} dimensions: there must be more, for A to be invertible", o.examples, o.dimension));
  require(o.condition >= 1, fmt::format("condition {} must be at least 1", o.condition));
  require(o.replacements >= 1, fmt::format("{} replacements: there must be at least 1", o.replacements));
  require(o.alpha > 0, fmt::format("alpha {} must be positive", o.alpha));
  require(o.process.dt > 0, fmt::format("dt {} must be positive", o.process.dt));
  require(o.process.trajectories >= 2 * o.dimension,
          fmt::format("{} trajectories are too few for a covariance", o.process.trajectories));
  require(o.last_time > 0.01, fmt::format("last time {} must be above 0.01", o.last_time));
  for (const double lambda : o.lambdas) require(lambda > 0, fmt::format("lambda {} must be positive", lambda));
}

/// Gaussian examples of a given condition; the last `replacements` rows stand in for others.
at::Tensor make_examples(const StabilityOptions& o, std::int64_t count, std::uint32_t number) {
  const auto spectrum = parse_spectrum(fmt::format("log:{}:1", 1 / o.condition), o.dimension);
  return at::matmul(normals({count, o.dimension}, o.seed, number), symmetric_root(rotated_diagonal(spectrum, o.seed)));
}

std::vector<double> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

/// Two processes, the second one of every swap, under one kind of noise.
struct Pair {
  OrnsteinUhlenbeck original, swapped;
  Pair(const StabilityStudy& study, const std::string& noise, double lambda = 1)
      : original(study.A, lambda * lambda * stability_noise(noise, study.A), study.options.alpha),
        swapped(study.swapped, lambda * lambda * stability_noise(noise, study.swapped), study.options.alpha) {}

  HellingerSquared at_time(double t, const at::Tensor& theta_0) const {
    return hellinger_squared(original.at_time(t, theta_0), swapped.at_time(t, theta_0));
  }
};

double root_of_largest(const at::Tensor& squared) { return std::sqrt(squared.max().item<double>()); }

/// For t to 0 the covariances are alpha t C C^T and the means coincide: what remains is the shape of C C^T.
double limit_at_zero(const StabilityStudy& study, const std::string& noise) {
  const at::Tensor zero = at::zeros_like(study.theta_0);
  return root_of_largest(
      hellinger_squared({zero, stability_noise(noise, study.A)}, {zero, stability_noise(noise, study.swapped)}).total);
}

StabilityCurve curve_of(const StabilityStudy& study, const std::string& noise) {
  const Pair pair(study, noise);
  StabilityCurve curve;
  curve.noise = noise;
  for (const double t : study.times) {
    const HellingerSquared h = pair.at_time(t, study.theta_0);
    const at::Tensor sorted = std::get<0>(at::sort(at::sqrt(h.total)));
    const auto quantile = [&](double q) {
      return sorted[std::llround(q * static_cast<double>(sorted.numel() - 1))].item<double>();
    };
    curve.worst.push_back(quantile(1));
    curve.high.push_back(quantile(0.95));
    curve.median.push_back(quantile(0.5));
    curve.low.push_back(quantile(0.05));
    curve.one.push_back(std::sqrt(h.total[study.swap].item<double>()));
    curve.shape.push_back(std::sqrt(h.shape[study.swap].item<double>()));
    curve.centre.push_back(std::sqrt(h.centre[study.swap].item<double>()));
  }
  curve.at_zero = limit_at_zero(study, noise);
  curve.at_infinity = root_of_largest(pair.at_time(std::numeric_limits<double>::infinity(), study.theta_0).total);
  ProcessOptions process = study.options.process;
  process.alpha = study.options.alpha;
  process.seed = study.options.seed;
  const auto samples = [&](const at::Tensor& A) {
    return simulate_process(A, symmetric_root(stability_noise(noise, A)), study.theta_0, study.simulated_times,
                            process);
  };
  const auto original = samples(study.A), swapped = samples(study.swapped[study.swap]);
  for (std::size_t i = 0; i < original.size(); ++i) {
    curve.simulated.push_back(std::sqrt(hellinger_squared(original[i], swapped[i]).total.item<double>()));
  }
  return curve;
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
  at::Tensor X;
  if (!options.data.empty()) {
    X = read_matrix(options.data);
    options.examples = X.size(0);
    options.dimension = X.size(1);
  }
  check(options);
  at::Tensor replacements;
  if (options.data.empty()) {
    X = make_examples(options, options.examples, 1);
    replacements = make_examples(options, options.replacements, 2);
  } else {  // new examples with the second moments of the file's
    replacements = at::matmul(normals({options.replacements, options.dimension}, options.seed, 2),
                              symmetric_root(second_moment(X)));
  }
  study.A = second_moment(X);
  study.swapped = swapped_second_moments(X, replacements);
  if (std::min(std::get<0>(at::linalg_eigh(study.swapped)).min().item<double>(),
               std::get<0>(at::linalg_eigh(study.A)).min().item<double>()) <= 1e-12) {
    throw Error("X^T X / N is not positive definite for every swap; give more examples, or fewer columns");
  }
  study.theta_0 = normals({options.dimension}, options.seed, 3);
  study.theta_0 = study.theta_0 * (options.start / study.theta_0.norm());
  study.swap = at::argmax(Pair(study, "full").at_time(1, study.theta_0).total).item<std::int64_t>();
  study.times = log_times(0.01, options.last_time, 81);
  for (const double t : log_times(0.1, options.simulate_until, 14)) {
    const double whole =
        options.process.dt * static_cast<double>(std::max<long long>(1, std::llround(t / options.process.dt)));
    if (study.simulated_times.empty() || whole > study.simulated_times.back()) study.simulated_times.push_back(whole);
  }
  for (const auto& noise : stability_noise_names()) {
    study.curves.push_back(curve_of(study, noise));
    for (const double lambda : options.lambdas) {
      const Pair pair(study, noise, lambda);
      ScaledCurve scaled{noise, lambda, {}};
      for (const double t : study.times) scaled.worst.push_back(root_of_largest(pair.at_time(t, study.theta_0).total));
      study.scaled.push_back(std::move(scaled));
    }
  }
  return study;
}

}  // namespace covnoise::theory
