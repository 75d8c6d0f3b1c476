#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace covnoise {

/// A symmetric matrix that is known only through its products with vectors.
struct SymmetricOperator {
  std::function<at::Tensor(const at::Tensor&)> product;
  std::int64_t dimension = 0;
  at::TensorOptions options;  ///< of the vectors
};

/// How many eigenvalues, and how accurate.
struct LanczosOptions {
  std::int64_t count = 1;         ///< of the largest eigenvalues (the most positive ones)
  double tolerance = 1e-3;        ///< of the residual |Hv - lambda v| over the largest |eigenvalue|
  std::int64_t iterations = 100;  ///< at most
  std::uint64_t seed = 0;         ///< of the start
  std::function<void(std::int64_t, double)> after = [](std::int64_t, double) {};  ///< iteration, largest so far
};

/// The largest eigenvalues and how they were found.
struct Eigenvalues {
  std::vector<double> values;     ///< descending
  std::vector<double> residuals;  ///< |Hv - lambda v| / max |lambda|, computed with H itself, not estimated
  bool converged = false;         ///< whether all of them are within the tolerance
  std::vector<double> history;    ///< the largest after each iteration
  std::vector<double> estimates;  ///< estimated residual of the largest after each iteration
};

/// Lanczos's method with full reorthogonalisation.
Eigenvalues largest_eigenvalues(const SymmetricOperator& matrix, const LanczosOptions& options);

/// The density of eigenvalues as weighted points: stochastic Lanczos quadrature (Golub and Meurant), the mean over
/// random starts. Weights add up to 1.
struct Spectrum {
  std::vector<double> values, weights;
};
Spectrum spectral_density(const SymmetricOperator& matrix, std::int64_t starts, std::int64_t iterations,
                          std::uint64_t seed);

}  // namespace covnoise
