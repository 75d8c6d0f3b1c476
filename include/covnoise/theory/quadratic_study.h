#pragma once
#include "covnoise/theory/quadratic.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace covnoise::theory {

/// The quadratic, its steps and its simulation.
struct QuadraticOptions {
  std::string matrix;           ///< file with A; empty: from the spectrum
  std::string spectrum;         ///< "3,1,0.5" or "log:min:max"; empty: log:(1/condition):1
  std::int64_t dimension = 50;  ///< of a "log:" spectrum
  double condition = 100;
  std::vector<std::string> noise{"none", "isotropic", "full", "diagonal"};  ///< names or files (noise_factor)
  std::string rate = "theorem";                                             ///< or a number: constant steps
  double alpha_0 = 0;              ///< of the theorem's steps; 0: 1 / lambda_max
  double initial_loss = 10;        ///< theta_0 is a random direction of this loss
  std::int64_t iterations = 2000;  ///< simulated
  std::int64_t trajectories = 4096;
  std::int64_t horizon = 1000000;  ///< steps of the exact recursion
  std::vector<double> errors;      ///< to be reached; empty: 1/10, 1/100, 1/1000 of the initial loss
  std::uint64_t seed = 1;
};

/// One kind of noise.
struct QuadraticResult {
  std::string name;
  at::Tensor factor;                ///< C
  double trace = 0, curvature = 0;  ///< Tr C C^T, Tr C^T A C
  std::vector<std::int64_t> steps;  ///< at which `exact` and the bound are given
  std::vector<double> exact;        ///< mean loss by the recursion
  MeanLosses simulated;
  std::optional<TheoremBound> bound;                 ///< decaying steps only
  std::vector<std::optional<std::int64_t>> reached;  ///< steps to each error of the study
};

/// Ratio of sqrt(A) to sqrt(diag A): as table 1 states it and as measured.
struct FullOverDiagonal {
  double frobenius = 0;                      ///< |A|_F^2 / |diag A|_F^2
  double one_step = 0, one_step_error = 0;   ///< measured rise of the loss in one step from the minimum, and its error
  std::vector<std::optional<double>> steps;  ///< to each error
  double asymptotic = 0;                     ///< steps for the error to 0
  std::vector<double> alpha, stationary;     ///< stationary loss over constant steps, alpha in units of 1/lambda_max
};

/// Figure 4: two dimensions, learning rate 0.1, 500 steps.
struct PlaneStudy {
  Quadratic quadratic;
  at::Tensor theta_0;
  /// A trajectory with one kind of noise.
  struct Run {
    std::string name;
    at::Tensor path;            ///< [steps + 1, 2], one trajectory
    std::vector<double> exact;  ///< mean loss at every step
    double stationary;
    std::array<double, 3> covariance;  ///< stationary, xx, xy, yy
  };
  std::vector<Run> runs;  ///< full, diagonal
};

/// Everything that the study of the quadratic computed.
struct QuadraticStudy {
  QuadraticOptions options;
  Quadratic quadratic;
  at::Tensor theta_0;
  StepSizes steps;
  std::vector<double> errors;
  std::vector<QuadraticResult> results;
  FullOverDiagonal ratio;
  PlaneStudy plane;  ///< of A itself if it has two dimensions
};

QuadraticStudy study_quadratic(const QuadraticOptions& options);

std::string quadratic_table(const QuadraticStudy& study);
/// Numbers (CSV, JSON) and figures (SVG, PNG) into `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const QuadraticStudy& study, const std::filesystem::path& folder);

}  // namespace covnoise::theory
