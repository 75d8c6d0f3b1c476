#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

/// The paper's appendix on stability: the same algorithm on two data sets that differ in one example, in continuous
/// time,
///   d theta = -A theta dt + sqrt(alpha) C dW,   A = X^T X / N,
/// is a Gaussian N(mu(t), Sigma(t)) for each; their Hellinger distance bounds the stability. Float64; all matrices may
/// have leading batch dimensions [..., d, d].
namespace covnoise::theory {

/// N(mean, covariance).
struct Gaussian {
  at::Tensor mean;        ///< [..., d]
  at::Tensor covariance;  ///< [..., d, d]
};

/// The process of one data set.
class OrnsteinUhlenbeck {
 public:
  /// A symmetric positive definite; `noise` is C C^T.
  OrnsteinUhlenbeck(const at::Tensor& A, const at::Tensor& noise, double alpha);

  /// mu = e^(-A t) theta_0; in the eigenbasis of A,
  /// Sigma_ij = alpha (C C^T)_ij (1 - e^(-(l_i + l_j) t)) / (l_i + l_j). t may be infinite.
  Gaussian at_time(double t, const at::Tensor& theta_0) const;

 private:
  at::Tensor eigenvalues_, eigenvectors_, noise_;  // noise_: alpha C C^T in the eigenbasis
};

/// Sigma(t) from its equation d Sigma / dt = -(A Sigma + Sigma A) + alpha C C^T, Sigma(0) = 0: classical Runge-Kutta,
/// the step chosen so that the local error (by halving it) stays below `tolerance` relative to Sigma.
at::Tensor integrate_covariance(const at::Tensor& A, const at::Tensor& noise, double alpha, double t,
                                double tolerance = 1e-12);

/// The Hellinger distance H of two Gaussians,
///   H^2 = 1 - det(S)^(1/4) det(S')^(1/4) / det((S + S')/2)^(1/2) exp(-1/8 (m - m')^T ((S + S')/2)^-1 (m - m')),
/// kept as the logarithms of its two factors, each [...].
struct Hellinger {
  at::Tensor log_shape;   ///< of the ratio of determinants
  at::Tensor log_centre;  ///< of the exponential

  /// H where both noises are lambda C: the determinants' ratio stays, the exponent grows by 1 / lambda^2.
  at::Tensor distance(double lambda = 1) const;
  at::Tensor shape() const;   ///< H if the means were equal
  at::Tensor centre() const;  ///< H if the determinants' ratio were 1
};
Hellinger hellinger(const Gaussian& a, const Gaussian& b);

/// A of the data set X [N, d], and of the N R data sets in which one example is replaced by one of `replacements` [R,
/// d]: [N R, d, d], the replacement varying fastest.
at::Tensor second_moment(const at::Tensor& X);
at::Tensor swapped_second_moments(const at::Tensor& X, const at::Tensor& replacements);

/// C C^T for C = I ("identity"), sqrt(A) ("full"), sqrt(diag A) ("diagonal").
at::Tensor stability_noise(const std::string& name, const at::Tensor& A);
const std::vector<std::string>& stability_noise_names();

/// How the process is simulated.
struct ProcessOptions {
  double alpha = 0.1;
  double dt = 0.02;  ///< of the Euler-Maruyama steps; dt = alpha is the algorithm itself
  std::int64_t trajectories = 8192;
  std::uint64_t seed = 1;
};

/// Sample mean and covariance of simulated processes theta <- theta - dt A theta + sqrt(alpha dt) C xi at `times`
/// (ascending). A, C: [d, d]. The same seed drives every process by the same xi, so that differences between two
/// processes have far smaller errors than either of them.
std::vector<Gaussian> simulate_process(const at::Tensor& A, const at::Tensor& C, const at::Tensor& theta_0,
                                       const std::vector<double>& times, const ProcessOptions& options);

}  // namespace covnoise::theory
