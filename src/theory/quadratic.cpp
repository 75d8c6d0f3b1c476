#include "covnoise/theory/quadratic.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace covnoise::theory {
namespace {

std::vector<double> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

/// c = diag(Q^T C C^T Q): the noise along each eigenvector.
std::vector<double> noise_along_eigenvectors(const Quadratic& quadratic, const at::Tensor& factor) {
  return to_vector(at::matmul(quadratic.eigenvectors.t(), factor).square().sum(1));
}

}  // namespace

double Quadratic::lambda_min() const { return eigenvalues[0].item<double>(); }
double Quadratic::lambda_max() const { return eigenvalues[-1].item<double>(); }

at::Tensor Quadratic::losses(const at::Tensor& theta) const {
  return 0.5 * (theta * at::matmul(matrix.to(theta.scalar_type()), theta)).sum(0);
}

Quadratic make_quadratic(const at::Tensor& matrix, const std::string& name) {
  if (matrix.dim() != 2 || matrix.size(0) != matrix.size(1)) {
    throw Error(fmt::format("{}: the matrix is {} x {} but must be square", name, matrix.size(0), matrix.size(-1)));
  }
  const double scale = matrix.abs().max().item<double>();
  if ((matrix - matrix.t()).abs().max().item<double>() > 1e-6 * scale) {
    throw Error(fmt::format("{}: the matrix is not symmetric", name));
  }
  Quadratic quadratic;
  quadratic.matrix = ((matrix + matrix.t()) / 2).to(at::kDouble);
  std::tie(quadratic.eigenvalues, quadratic.eigenvectors) = at::linalg_eigh(quadratic.matrix);
  if (!(quadratic.lambda_min() > 1e-14 * scale)) {
    throw Error(fmt::format("{}: the matrix is not positive definite: its smallest eigenvalue is {:.3g}", name,
                            quadratic.lambda_min()));
  }
  return quadratic;
}

const std::vector<std::string>& noise_names() {
  static const std::vector<std::string> names{"none", "isotropic", "full", "diagonal"};
  return names;
}

at::Tensor noise_factor(const std::string& name, const Quadratic& quadratic) {
  const at::Tensor& A = quadratic.matrix;
  const auto d = quadratic.dimension();
  if (name == "none") return at::zeros_like(A);
  if (name == "isotropic") return at::eye(d, at::kDouble) * at::sqrt(at::trace(A) / d);
  if (name == "full") return symmetric_root(A);
  if (name == "diagonal") return at::sqrt(diagonal_part(A));
  if (name.find_first_of("./") == std::string::npos) {
    throw Error(
        fmt::format("unknown noise '{}'; use one of {}, or a file with C", name, fmt::join(noise_names(), ", ")));
  }
  at::Tensor factor = read_matrix(name);
  if (factor.sizes() != A.sizes()) {
    throw Error(fmt::format("{}: C is {} x {}, A is {} x {}", name, factor.size(0), factor.size(1), d, d));
  }
  return factor;
}

StepSizes StepSizes::constant(double alpha) {
  TORCH_CHECK(alpha > 0, "step size ", alpha, " must be positive");
  return {alpha, 0};
}

StepSizes StepSizes::theorem(const Quadratic& quadratic, double alpha_0) {
  TORCH_CHECK(alpha_0 > 0 && alpha_0 <= (1 + 1e-12) / quadratic.lambda_max(), "alpha_0 = ", alpha_0,
              " must be positive and at most 1/lambda_max = ", 1 / quadratic.lambda_max());
  return {2 / quadratic.lambda_min(), 2 / (alpha_0 * quadratic.lambda_min())};
}

TheoremBound theorem_bound(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                           double initial_loss) {
  TORCH_CHECK(steps.decaying(), "the theorem applies only to decaying steps");
  const double from_noise = 2 * noise_curvature(quadratic, factor) / std::pow(quadratic.lambda_min(), 2);
  return {std::max(from_noise, steps.gamma() * initial_loss), steps.gamma()};
}

SecondMoments::SecondMoments(const Quadratic& quadratic, const at::Tensor& factor, const at::Tensor& theta_0)
    : lambda_(to_vector(quadratic.eigenvalues)),
      noise_(noise_along_eigenvectors(quadratic, factor)),
      moment_(to_vector(at::matmul(quadratic.eigenvectors.t(), theta_0).square())) {}

void SecondMoments::step(double alpha) {
  for (std::size_t i = 0; i < moment_.size(); ++i) {
    const double keep = 1 - alpha * lambda_[i];
    moment_[i] = keep * keep * moment_[i] + alpha * alpha * noise_[i];
  }
}

double SecondMoments::loss() const {
  double sum = 0;
  for (std::size_t i = 0; i < moment_.size(); ++i) sum += lambda_[i] * moment_[i];
  return sum / 2;
}

std::vector<double> exact_losses(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                                 const at::Tensor& theta_0, std::int64_t iterations) {
  SecondMoments moments(quadratic, factor, theta_0);
  std::vector<double> losses{moments.loss()};
  losses.reserve(static_cast<std::size_t>(iterations) + 1);
  for (std::int64_t k = 0; k < iterations; ++k) {
    moments.step(steps(k));
    losses.push_back(moments.loss());
  }
  return losses;
}

std::vector<std::optional<std::int64_t>> steps_to_reach(const std::vector<double>& losses,
                                                        const std::vector<double>& errors) {
  std::vector<std::optional<std::int64_t>> steps;
  for (const double error : errors) {
    const auto above = std::find_if(losses.rbegin(), losses.rend(), [&](double loss) { return !(loss <= error); });
    if (above == losses.rbegin()) {
      steps.emplace_back();
    } else {
      steps.emplace_back(losses.rend() - above);
    }
  }
  return steps;
}

double noise_curvature(const Quadratic& quadratic, const at::Tensor& factor) {
  return (factor * at::matmul(quadratic.matrix, factor)).sum().item<double>();
}

double one_step_rise(const Quadratic& quadratic, const at::Tensor& factor, double alpha) {
  return alpha * alpha / 2 * noise_curvature(quadratic, factor);
}

double stationary_loss(const Quadratic& quadratic, const at::Tensor& factor, double alpha) {
  if (alpha * quadratic.lambda_max() >= 2) return std::numeric_limits<double>::infinity();
  const auto lambda = to_vector(quadratic.eigenvalues), noise = noise_along_eigenvectors(quadratic, factor);
  double sum = 0;
  for (std::size_t i = 0; i < lambda.size(); ++i) sum += alpha * noise[i] / (2 - alpha * lambda[i]);
  return sum / 2;
}

double asymptotic_constant(const Quadratic& quadratic, const at::Tensor& factor) {
  const auto lambda = to_vector(quadratic.eigenvalues), noise = noise_along_eigenvectors(quadratic, factor);
  double sum = 0;
  for (std::size_t i = 0; i < lambda.size(); ++i) sum += lambda[i] * noise[i] / (4 * lambda[i] / lambda[0] - 1);
  return 2 / (lambda[0] * lambda[0]) * sum;
}

std::vector<std::int64_t> log_spaced_steps(std::int64_t last, int count) {
  std::vector<std::int64_t> steps{0};
  for (int i = 0; i <= count; ++i) {
    const auto step = std::llround(std::pow(static_cast<double>(last), static_cast<double>(i) / count));
    if (step > steps.back()) steps.push_back(step);
  }
  return steps;
}

}  // namespace covnoise::theory
