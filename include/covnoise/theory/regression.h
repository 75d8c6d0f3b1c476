#pragma once
#include "covnoise/plot/figure.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::theory {

/// Least squares: loss_i = 1/2 (x_i^T theta - y_i)^2, loss their mean over the data set. Float64.
struct Regression {
  at::Tensor X;  ///< [N, d]
  at::Tensor y;  ///< [N]

  double loss(const at::Tensor& theta) const;
  at::Tensor example_gradients(const at::Tensor& theta) const;  ///< [N, d]
  at::Tensor hessian() const;                                   ///< X^T X / N
  at::Tensor minimum() const;                                   ///< [d]
};

/// The result of one step: points, and their exact mean and covariance.
struct Cloud {
  std::string name;
  at::Tensor points;      ///< [n, d]
  at::Tensor mean;        ///< [d]
  at::Tensor covariance;  ///< [d, d]
};

/// The regression problem and its noise.
struct RegressionOptions {
  std::int64_t examples = 1000;
  std::int64_t small_batch = 32;  ///< M_S; the large batch is the whole data set
  double alpha = 0.3;             ///< step size
  double sigma = 0.1;             ///< of the isotropic noise
  double residual = 0.5;          ///< standard deviation of y around the line
  std::int64_t points = 500;      ///< of each cloud
  std::uint64_t seed = 1;
  std::array<double, 2> start{1.1, 1.1};
};

/// Figure 1 of the paper: one step from `start`, many times, in four ways.
struct RegressionStudy {
  RegressionOptions options;
  Regression problem;
  std::vector<Cloud> clouds;  ///< SGD, isotropic, full Fisher, diagonal Fisher
};
RegressionStudy study_regression(const RegressionOptions& options);

/// Mean loss of a cloud, exact: loss at its mean + 1/2 Tr(A covariance).
double mean_loss(const RegressionStudy& study, const Cloud& cloud);

std::string regression_table(const RegressionStudy& study);
/// Numbers (CSV, JSON) and figure (SVG, PNG) into `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const RegressionStudy& study, const std::filesystem::path& folder,
                                              plot::Formats formats = plot::Formats::kSvgAndPng);

}  // namespace covnoise::theory
