#pragma once
#include "covnoise/theory/stability.h"

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::theory {

/// The quadratics, times and scales of the study.
struct StabilityOptions {
  std::string data;             ///< file with X, one example per row; empty: Gaussian examples
  std::int64_t examples = 100;  ///< N of Gaussian examples
  std::int64_t dimension = 4;
  double condition = 20;           ///< of their covariance, eigenvalues 1/condition to 1
  std::int64_t replacements = 10;  ///< new examples, each of which replaces each old one in turn
  double alpha = 0.1;
  double start = 1;         ///< length of theta(0), a random direction
  double last_time = 1000;  ///< of the curves
  double simulate_until = 40;
  ProcessOptions process;  ///< its alpha and seed are overwritten by those of this struct
  std::vector<double> lambdas{1, 0.3, 0.1, 0.03};
  std::uint64_t seed = 1;
};

/// Square roots of H^2 over the times of the study, for one kind of noise.
struct StabilityCurve {
  std::string noise;
  std::vector<double> worst, median, low, high;  ///< over the swaps: largest, median, 5 % and 95 %
  std::vector<double> one, shape, centre;        ///< for the swap that is simulated: H and its two parts
  std::vector<double> simulated;                 ///< at the study's simulated times
  double at_zero = 0, at_infinity = 0;           ///< limits of `worst`
};

/// H of lambda C: `worst` over time for each lambda.
struct ScaledCurve {
  std::string noise;
  double lambda;
  std::vector<double> worst;
};

/// Everything that the study of stability computed.
struct StabilityStudy {
  StabilityOptions options;
  at::Tensor A;        ///< of the data set
  at::Tensor swapped;  ///< [swaps, d, d]
  at::Tensor theta_0;
  std::int64_t swap = 0;  ///< the one that is simulated: the worst for sqrt(A) at time 1
  std::vector<double> times, simulated_times;
  std::vector<StabilityCurve> curves;  ///< identity, full, diagonal
  std::vector<ScaledCurve> scaled;     ///< for each of them and each lambda
};

StabilityStudy study_stability(const StabilityOptions& options);

std::string stability_table(const StabilityStudy& study);
/// Numbers (CSV, JSON) and figure (SVG, PNG) into `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const StabilityStudy& study, const std::filesystem::path& folder);

}  // namespace covnoise::theory
