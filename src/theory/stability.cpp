#include "covnoise/theory/stability.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"
#include "theory/ensemble.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace covnoise::theory {
namespace {

at::Tensor transposed(const at::Tensor& matrix) { return matrix.transpose(-2, -1); }

at::Tensor log_determinant(const at::Tensor& cholesky) {
  return 2 * at::log(at::diagonal(cholesky, 0, -2, -1)).sum(-1);
}

/// One step of the classical fourth-order Runge-Kutta method.
template <class Derivative>
at::Tensor runge_kutta_step(const Derivative& f, const at::Tensor& y, double h) {
  const at::Tensor k1 = f(y), k2 = f(y + h / 2 * k1), k3 = f(y + h / 2 * k2), k4 = f(y + h * k3);
  return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
}

}  // namespace

OrnsteinUhlenbeck::OrnsteinUhlenbeck(const at::Tensor& A, const at::Tensor& noise, double alpha) {
  std::tie(eigenvalues_, eigenvectors_) = at::linalg_eigh(A);
  TORCH_CHECK(eigenvalues_.min().item<double>() > 0, "A must be positive definite");
  noise_ = alpha * at::matmul(at::matmul(transposed(eigenvectors_), noise), eigenvectors_);
}

Gaussian OrnsteinUhlenbeck::at_time(double t, const at::Tensor& theta_0) const {
  const at::Tensor start = at::matmul(transposed(eigenvectors_), theta_0.unsqueeze(-1)).squeeze(-1);
  const at::Tensor decayed = std::isinf(t) ? at::zeros_like(start) : start * at::exp(-eigenvalues_ * t);
  const at::Tensor sums = eigenvalues_.unsqueeze(-1) + eigenvalues_.unsqueeze(-2);
  const at::Tensor grown = std::isinf(t) ? 1 / sums : -at::expm1(-sums * t) / sums;
  return {at::matmul(eigenvectors_, decayed.unsqueeze(-1)).squeeze(-1),
          at::matmul(at::matmul(eigenvectors_, noise_ * grown), transposed(eigenvectors_))};
}

at::Tensor integrate_covariance(const at::Tensor& A, const at::Tensor& noise, double alpha, double t,
                                double tolerance) {
  const auto derivative = [&](const at::Tensor& sigma) {
    const at::Tensor product = at::matmul(A, sigma);
    return alpha * noise - product - transposed(product);
  };
  at::Tensor sigma = at::zeros_like(noise);
  double now = 0, h = std::min(t, 0.01 / A.abs().max().item<double>());
  while (now < t) {
    h = std::min(h, t - now);
    const at::Tensor whole = runge_kutta_step(derivative, sigma, h);
    const at::Tensor halves = runge_kutta_step(derivative, runge_kutta_step(derivative, sigma, h / 2), h / 2);
    const double error = (halves - whole).abs().max().item<double>() / 15;
    const double allowed = tolerance * halves.abs().max().item<double>();
    if (error <= allowed) {
      sigma = halves + (halves - whole) / 15;  // fifth order
      now = h == t - now ? t : now + h;
    }
    h *= std::clamp(0.9 * std::pow(allowed / std::max(error, 1e-300), 0.2), 0.2, 4.0);
  }
  return sigma;
}

Hellinger hellinger(const Gaussian& a, const Gaussian& b) {
  const at::Tensor middle = at::linalg_cholesky((a.covariance + b.covariance) / 2);
  const at::Tensor shape = (log_determinant(at::linalg_cholesky(a.covariance)) +
                            log_determinant(at::linalg_cholesky(b.covariance)) - 2 * log_determinant(middle)) /
                           4;
  const at::Tensor difference = (a.mean - b.mean).unsqueeze(-1);
  const at::Tensor scaled = at::linalg_solve_triangular(middle, difference.expand_as(middle.narrow(-1, 0, 1)), false);
  // Rounding may make the logarithm of a ratio that is at most 1 slightly positive.
  return {shape.clamp_max(0), -scaled.square().sum({-2, -1}) / 8};
}

at::Tensor Hellinger::distance(double lambda) const {
  return at::sqrt(0 - at::expm1(log_shape + log_centre / (lambda * lambda)));
}
at::Tensor Hellinger::shape() const { return at::sqrt(0 - at::expm1(log_shape)); }
at::Tensor Hellinger::centre() const { return at::sqrt(0 - at::expm1(log_centre)); }

at::Tensor second_moment(const at::Tensor& X) { return at::matmul(X.t(), X) / static_cast<double>(X.size(0)); }

at::Tensor swapped_second_moments(const at::Tensor& X, const at::Tensor& replacements) {
  const auto squares = [](const at::Tensor& rows) { return rows.unsqueeze(2) * rows.unsqueeze(1); };  // [n, d, d]
  const at::Tensor changes = squares(replacements).unsqueeze(0) - squares(X).unsqueeze(1);            // [N, R, d, d]
  return (second_moment(X) + changes / static_cast<double>(X.size(0))).flatten(0, 1);
}

const std::vector<std::string>& stability_noise_names() {
  static const std::vector<std::string> names{"identity", "full", "diagonal"};
  return names;
}

at::Tensor stability_noise(const std::string& name, const at::Tensor& A) {
  if (name == "identity") return at::eye(A.size(-1), A.options()).expand_as(A);
  if (name == "full") return A;
  if (name == "diagonal") return diagonal_part(A);
  throw Error(fmt::format("unknown noise '{}'; use one of {}", name, fmt::join(stability_noise_names(), ", ")));
}

std::vector<Gaussian> simulate_process(const at::Tensor& A, const at::Tensor& C, const at::Tensor& theta_0,
                                       const std::vector<double>& times, const ProcessOptions& options) {
  EnsembleOptions ensemble{options.trajectories, options.seed, {}, at::kDouble};
  for (const double time : times) ensemble.record.push_back(std::llround(time / options.dt));
  const std::int64_t blocks = ensemble_blocks(options.trajectories), d = A.size(0);
  const auto count = static_cast<std::int64_t>(times.size());
  at::Tensor sums = at::zeros({count, blocks, d}, at::kDouble),
             products = at::zeros({count, blocks, d, d}, at::kDouble);
  simulate_ensemble(
      theta_0, -A, std::sqrt(options.alpha / options.dt) * C, [&](std::int64_t) { return options.dt; }, ensemble,
      [&](std::int64_t block, std::size_t i, const at::Tensor& theta) {
        const auto time = static_cast<std::int64_t>(i);
        sums[time][block].copy_(theta.sum(1));
        products[time][block].copy_(at::matmul(theta, theta.t()));
      });
  const double n = static_cast<double>(options.trajectories);
  std::vector<Gaussian> moments;
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor mean = sums[i].sum(0) / n;
    moments.push_back({mean, (products[i].sum(0) - n * at::outer(mean, mean)) / (n - 1)});
  }
  return moments;
}

}  // namespace covnoise::theory
