#include "covnoise/theory/regression.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/random.h"
#include "covnoise/theory/matrix.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace covnoise::theory {
namespace {

/// Inputs with a long and a short direction, oblique to the axes, so that the diagonal is far from the full Fisher.
Regression make_problem(const RegressionOptions& options) {
  const at::Tensor mix = at::tensor({1.0, 0.0, 0.75, 0.55}, at::kDouble).view({2, 2});  // rows: x_1, x_2
  Regression problem;
  problem.X = at::matmul(normals({options.examples, 2}, options.seed, 1), mix.t());
  const at::Tensor truth = at::tensor({0.5, -0.3}, at::kDouble);
  problem.y = at::mv(problem.X, truth) + options.residual * normals({options.examples}, options.seed, 2);
  return problem;
}

/// `size` different numbers below N by a Fisher-Yates shuffle that stops early; a pure function of the stream.
std::vector<std::int64_t> draw_batch(std::vector<std::int64_t>& order, std::int64_t size, const RandomStream& stream) {
  const auto n = static_cast<std::uint32_t>(order.size());
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(size); ++i) {
    std::swap(order[i], order[i + stream.below(n - i, i)]);
  }
  return {order.begin(), order.begin() + size};
}

/// Mini-batch steps themselves. The mean of M of N without replacement has covariance (N - M) / (M (N - 1)) times that
/// of the population.
Cloud sgd_cloud(const at::Tensor& gradients, const at::Tensor& start, const RegressionOptions& options) {
  const std::int64_t N = gradients.size(0), M = options.small_batch;
  std::vector<std::int64_t> order(static_cast<std::size_t>(N));
  std::iota(order.begin(), order.end(), 0);
  std::vector<at::Tensor> points;
  for (std::int64_t i = 0; i < options.points; ++i) {
    const auto batch = draw_batch(order, M, {options.seed, Purpose::kOrder, static_cast<std::uint32_t>(i)});
    points.push_back(start - options.alpha * gradients.index_select(0, at::tensor(batch, at::kLong)).mean(0));
  }
  const at::Tensor mean = gradients.mean(0), centred = gradients - mean;
  const at::Tensor population = at::matmul(centred.t(), centred) / static_cast<double>(N);
  const double factor = static_cast<double>(N - M) / (static_cast<double>(M) * static_cast<double>(N - 1));
  return {"SGD", at::stack(points), start - options.alpha * mean, options.alpha * options.alpha * factor * population};
}

/// The full-batch step plus alpha C^(1/2) xi.
Cloud gaussian_cloud(const std::string& name, const at::Tensor& gradient, const at::Tensor& start, const at::Tensor& C,
                     const RegressionOptions& options, std::uint32_t number) {
  const at::Tensor covariance = options.alpha * options.alpha * C, mean = start - options.alpha * gradient;
  const at::Tensor xi = normals({options.points, start.numel()}, options.seed, number);
  return {name, mean + at::matmul(xi, symmetric_root(covariance)), mean, covariance};
}

}  // namespace

double Regression::loss(const at::Tensor& theta) const {
  return 0.5 * (at::mv(X, theta) - y).square().mean().item<double>();
}
at::Tensor Regression::example_gradients(const at::Tensor& theta) const {
  return (at::mv(X, theta) - y).unsqueeze(1) * X;
}
at::Tensor Regression::hessian() const { return at::matmul(X.t(), X) / static_cast<double>(X.size(0)); }
at::Tensor Regression::minimum() const {
  return at::linalg_solve(hessian(), at::mv(X.t(), y) / static_cast<double>(X.size(0)));
}

RegressionStudy study_regression(const RegressionOptions& options) {
  if (options.small_batch < 1 || options.small_batch > options.examples) {
    throw Error(fmt::format("small batch {} must lie between 1 and the number of examples, {}", options.small_batch,
                            options.examples));
  }
  if (options.points < 2) throw Error(fmt::format("points {} must be at least 2", options.points));
  RegressionStudy study{options, make_problem(options), {}};
  const at::Tensor start = at::tensor({options.start[0], options.start[1]}, at::kDouble);
  const at::Tensor gradients = study.problem.example_gradients(start), gradient = gradients.mean(0);
  const double N = static_cast<double>(options.examples), M = static_cast<double>(options.small_batch);
  const at::Tensor fisher = (N - M) / (N * M) * at::matmul(gradients.t(), gradients) / N;  // s^2 F
  const at::Tensor isotropic = options.sigma * options.sigma * at::eye(2, at::kDouble);
  study.clouds = {sgd_cloud(gradients, start, options),
                  gaussian_cloud("isotropic", gradient, start, isotropic, options, 3),
                  gaussian_cloud("full Fisher", gradient, start, fisher, options, 4),
                  gaussian_cloud("diagonal Fisher", gradient, start, diagonal_part(fisher), options, 5)};
  return study;
}

double mean_loss(const RegressionStudy& study, const Cloud& cloud) {
  return study.problem.loss(cloud.mean) + 0.5 * (study.problem.hessian() * cloud.covariance).sum().item<double>();
}

}  // namespace covnoise::theory
