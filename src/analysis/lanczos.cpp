#include "covnoise/analysis/lanczos.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/random.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

/// An orthonormal basis V of the Krylov space and T = V^T H V, tridiagonal; one more row with every step.
class Lanczos {
 public:
  Lanczos(const SymmetricOperator& matrix, std::int64_t most, const RandomStream& stream)
      : matrix_(matrix), basis_(torch::empty({most + 1, matrix.dimension}, matrix.options)) {
    auto start = basis_[0];
    fill_normal(start, stream);
    start.div_(start.norm());
  }

  void step() {
    auto w = matrix_.product(basis_[size()]);
    diagonal_.push_back(w.dot(basis_[size()]).item<double>());
    const auto known = basis_.narrow(0, 0, size());
    for (int pass = 0; pass < 2; ++pass) w.sub_(known.t().mv(known.mv(w)));  // twice is enough (Kahan, Parlett)
    next_ = w.norm().item<double>();
    if (!exhausted()) basis_[size()].copy_(w.div_(next_));
    off_diagonal_.push_back(next_);
  }

  std::int64_t size() const { return static_cast<std::int64_t>(diagonal_.size()); }
  /// Whether the space is invariant: its eigenvalues are exact.
  bool exhausted() const {
    return size() == matrix_.dimension || (size() > 0 && next_ <= 1e-14 * std::abs(diagonal_.front()));
  }
  double next() const { return next_; }  ///< beta of the next row

  /// Eigenvalues of T, ascending, and its eigenvectors as columns.
  std::tuple<at::Tensor, at::Tensor> solve() const {
    auto t = torch::zeros({size(), size()}, torch::kFloat64);
    auto a = t.accessor<double, 2>();
    for (std::int64_t i = 0; i < size(); ++i) {
      a[i][i] = diagonal_[i];
      if (i > 0) a[i][i - 1] = a[i - 1][i] = off_diagonal_[i - 1];
    }
    return at::linalg_eigh(t);
  }

  at::Tensor vector(const at::Tensor& coefficients) const {
    return basis_.narrow(0, 0, size()).t().mv(coefficients.to(matrix_.options));
  }

 private:
  const SymmetricOperator& matrix_;
  at::Tensor basis_;  // [most + 1, dimension]
  std::vector<double> diagonal_, off_diagonal_;
  double next_ = 0;
};

/// Of the i-th largest eigenvalue: the residual of its Ritz vector is |beta s_last|.
double estimated_residual(const Lanczos& lanczos, const at::Tensor& vectors, std::int64_t i) {
  return std::abs(lanczos.next() * vectors[-1][vectors.size(1) - 1 - i].item<double>());
}

double largest_magnitude(const at::Tensor& values) { return values.abs().max().item<double>(); }

void measure(const SymmetricOperator& matrix, const Lanczos& lanczos, std::int64_t count, Eigenvalues& result) {
  const auto [values, vectors] = lanczos.solve();
  for (std::int64_t i = 0; i < std::min(count, values.size(0)); ++i) {
    const std::int64_t column = values.size(0) - 1 - i;
    const double value = values[column].item<double>();
    auto vector = lanczos.vector(vectors.select(1, column));
    vector.div_(vector.norm());
    result.values.push_back(value);
    result.residuals.push_back((matrix.product(vector) - value * vector).norm().item<double>() /
                               largest_magnitude(values));
  }
}

}  // namespace

Eigenvalues largest_eigenvalues(const SymmetricOperator& matrix, const LanczosOptions& options) {
  require(options.count >= 1 && options.count <= matrix.dimension,
          fmt::format("{} eigenvalues of a matrix of dimension {}", options.count, matrix.dimension));
  require(options.iterations >= options.count,
          fmt::format("{} iterations are too few for {} eigenvalues", options.iterations, options.count));
  const torch::NoGradGuard no_grad;
  Lanczos lanczos(matrix, std::min(options.iterations, matrix.dimension),
                  {options.seed, Purpose::kAnalysis, 0xffffffffu});
  Eigenvalues result;
  while (lanczos.size() < options.iterations && !lanczos.exhausted()) {
    lanczos.step();
    const auto [values, vectors] = lanczos.solve();
    const double scale = largest_magnitude(values);
    result.history.push_back(values[-1].item<double>());
    result.estimates.push_back(estimated_residual(lanczos, vectors, 0) / scale);
    options.after(lanczos.size(), result.history.back());
    if (lanczos.size() < options.count) continue;
    double worst = 0;
    for (std::int64_t i = 0; i < options.count; ++i) worst = std::max(worst, estimated_residual(lanczos, vectors, i));
    if (worst <= options.tolerance * scale) break;
  }
  measure(matrix, lanczos, options.count, result);
  result.converged =
      static_cast<std::int64_t>(result.values.size()) == options.count &&
      std::all_of(result.residuals.begin(), result.residuals.end(), [&](double r) { return r <= options.tolerance; });
  return result;
}

Spectrum spectral_density(const SymmetricOperator& matrix, std::int64_t starts, std::int64_t iterations,
                          std::uint64_t seed) {
  require(starts >= 1 && iterations >= 1, "a spectral density needs at least one start and one iteration");
  const torch::NoGradGuard no_grad;
  Spectrum spectrum;
  for (std::int64_t s = 0; s < starts; ++s) {
    Lanczos lanczos(matrix, std::min(iterations, matrix.dimension),
                    {seed, Purpose::kAnalysis, 0xfffffffeu - static_cast<std::uint32_t>(s)});
    while (lanczos.size() < iterations && !lanczos.exhausted()) lanczos.step();
    const auto [values, vectors] = lanczos.solve();
    for (std::int64_t i = 0; i < values.size(0); ++i) {
      spectrum.values.push_back(values[i].item<double>());
      spectrum.weights.push_back(std::pow(vectors[0][i].item<double>(), 2) / static_cast<double>(starts));
    }
  }
  return spectrum;
}

}  // namespace covnoise
