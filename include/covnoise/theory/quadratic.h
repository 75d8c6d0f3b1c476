#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The convex quadratic of the paper: loss 1/2 theta^T A theta, steps theta <- theta - a A theta + a C xi, xi ~ N(0,
/// I). Everything is float64. E is the mean over the noise.
namespace covnoise::theory {

/// A and its spectrum.
struct Quadratic {
  at::Tensor matrix;        ///< A [d, d]
  at::Tensor eigenvalues;   ///< [d], ascending
  at::Tensor eigenvectors;  ///< [d, d], one per column

  std::int64_t dimension() const { return matrix.size(0); }
  double lambda_min() const;
  double lambda_max() const;
  at::Tensor losses(const at::Tensor& theta) const;  ///< of each column of theta [d, n]: [n]
};

/// An Error if the matrix is not square, not symmetric or not positive definite; `name` identifies it in the message.
Quadratic make_quadratic(const at::Tensor& matrix, const std::string& name = "A");

/// C [d, d] by name: none 0, isotropic sqrt(Tr A / d) I, full sqrt(A), diagonal sqrt(diag A) (all except the first
/// have the trace Tr C C^T = Tr A); any other name is a file.
at::Tensor noise_factor(const std::string& name, const Quadratic& quadratic);
const std::vector<std::string>& noise_names();

/// Step sizes a_k, k = 0, 1, ...: constant, or the theorem's 2 / ((k + gamma) lambda_min). There gamma must be at least
/// 2 / (alpha_0 lambda_min), so that a_k <= alpha_0 <= 1 / lambda_max from the first step on; it is taken equal.
class StepSizes {
 public:
  static StepSizes constant(double alpha);
  static StepSizes theorem(const Quadratic& quadratic, double alpha_0);

  double operator()(std::int64_t k) const { return decaying() ? scale_ / (static_cast<double>(k) + gamma_) : scale_; }
  bool decaying() const { return gamma_ > 0; }
  double gamma() const { return gamma_; }

 private:
  StepSizes(double scale, double gamma) : scale_(scale), gamma_(gamma) {}
  double scale_, gamma_;
};

/// The theorem: E L(theta_k) <= nu / (k + gamma), nu = max(2 Tr(C^T A C) / lambda_min^2, gamma L(theta_0)).
struct TheoremBound {
  double nu, gamma;
  double operator()(std::int64_t k) const { return nu / (static_cast<double>(k) + gamma); }
  double steps_to_reach(double error) const { return nu / error - gamma; }
};
TheoremBound theorem_bound(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                           double initial_loss);

/// The exact mean loss. The second moments S = E theta theta^T obey S <- (I - a A) S (I - a A) + a^2 C C^T; the loss
/// 1/2 Tr(A S) needs only the diagonal of S in the eigenbasis of A, where the entries are independent:
/// s_i <- (1 - a lambda_i)^2 s_i + a^2 c_i, c = diag(Q^T C C^T Q).
class SecondMoments {
 public:
  SecondMoments(const Quadratic& quadratic, const at::Tensor& factor, const at::Tensor& theta_0);
  void step(double alpha);
  double loss() const;

 private:
  std::vector<double> lambda_, noise_, moment_;
};

/// E L(theta_k) for k = 0 to `iterations`.
std::vector<double> exact_losses(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                                 const at::Tensor& theta_0, std::int64_t iterations);

/// For each error the number of steps after which the mean loss stays at or below it; none if `most` steps are not
/// enough.
std::vector<std::optional<std::int64_t>> steps_to_reach(const std::vector<double>& losses,
                                                        const std::vector<double>& errors);

/// Tr(C^T A C): for sqrt(A) the squared Frobenius norm of A, for sqrt(diag A) that of its diagonal.
double noise_curvature(const Quadratic& quadratic, const at::Tensor& factor);
/// Rise of the mean loss in one step from the minimum: a^2 / 2 Tr(C^T A C).
double one_step_rise(const Quadratic& quadratic, const at::Tensor& factor, double alpha);
/// Stationary mean loss of constant steps: 1/2 sum_i a c_i / (2 - a lambda_i); infinite if a >= 2 / lambda_max.
double stationary_loss(const Quadratic& quadratic, const at::Tensor& factor, double alpha);
/// Limit of k E L(theta_k) for the theorem's steps: (2 / lambda_min^2) sum_i lambda_i c_i / (4 lambda_i / lambda_min -
/// 1), which is Tr(C C^T) / (2 lambda_min) except for the directions of smallest curvature.
double asymptotic_constant(const Quadratic& quadratic, const at::Tensor& factor);

/// Trajectories of a simulation.
struct SimulationOptions {
  std::int64_t trajectories = 4096;
  std::uint64_t seed = 1;
  std::vector<std::int64_t> record;    ///< steps after which the loss is recorded, ascending; the last one ends the run
  at::ScalarType dtype = at::kDouble;  ///< of the products
};

/// Mean over trajectories and the standard error of that mean, at each recorded step.
struct MeanLosses {
  std::vector<std::int64_t> steps;
  std::vector<double> mean, standard_error;
};

/// All trajectories at once: [theta; xi] is one matrix [2 d, n], a step one product with [I - a A, a C].
MeanLosses simulate_losses(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                           const at::Tensor& theta_0, const SimulationOptions& options);

/// One trajectory, [iterations + 1, d].
at::Tensor simulate_trajectory(const Quadratic& quadratic, const at::Tensor& factor, const StepSizes& steps,
                               const at::Tensor& theta_0, std::int64_t iterations, std::uint64_t seed);

/// About `count` whole numbers from 0 to `last`, spaced evenly on a logarithmic scale.
std::vector<std::int64_t> log_spaced_steps(std::int64_t last, int count);

}  // namespace covnoise::theory
