#pragma once
#include "covnoise/core/internal/mean_std.h"

#include <cmath>
#include <vector>

/// Inference from a few independent runs. Intervals have a confidence of 95 %; p values are two-sided. What cannot be
/// estimated (a variance from a single run) is NaN.
namespace covnoise {

constexpr double kConfidence = 0.95;

/// Half the width of the confidence interval of the mean, t(n - 1) s / sqrt(n); NaN for fewer than two values.
double half_width(const MeanStd& sample);

/// "93.25", with " +- 0.12", the half-width of the confidence interval, where there are several values, "-" where there
/// is none or it is NaN: a share in 0..1 as percent.
std::string percent_interval_text(const MeanStd& sample);

/// An estimate with Student's t distribution around it.
struct Estimate {
  double value = NAN;
  double standard_error = NAN;
  double degrees = NAN;  ///< of freedom, of `standard_error`

  bool has_interval() const { return std::isfinite(standard_error); }
  double low() const;   ///< end of the confidence interval
  double high() const;  ///< end of the confidence interval
  /// Of the hypothesis that the true value is `hypothesis`.
  double p_value(double hypothesis = 0) const;
};

/// mean(a) - mean(b) by Welch's method: the standard error is sqrt(s_a^2/n_a + s_b^2/n_b), the degrees of freedom are
/// those of Welch (1947) and Satterthwaite (1946). Without a standard error where a sample has fewer than two values.
Estimate welch_difference(const MeanStd& a, const MeanStd& b);

/// Holm's (1979) correction: adjusted p values, in the order of `p_values`, that keep the probability of a single false
/// rejection among all of them below the level. NaN stays NaN and does not count.
std::vector<double> holm_adjusted(const std::vector<double>& p_values);

/// The mean effect over rows whose true effects differ.
struct Pooled {
  Estimate mean;
  double between = NAN;  ///< standard deviation of the true effects between rows, tau
  int rows = 0;          ///< with a positive standard error: the others have no weight
};

/// Random-effects meta-analysis of independent estimates y_i with standard errors s_i. tau^2 is that of DerSimonian and
/// Laird (1986): max(0, (Q - (k - 1)) / (sum w - sum w^2 / sum w)), w = 1/s^2, Q = sum w (y - ybar_w)^2. With
/// v = 1/(s^2 + tau^2) the mean is sum v y / sum v, and its variance that of Hartung and Knapp (2001),
/// max(1, sum v (y - mean)^2 / (k - 1)) / sum v, with k - 1 degrees of freedom.
///
/// Rows are different networks and data sets, so a common effect would be wrong; the t interval allows for the few
/// rows. Where the rows agree, tau = 0 and the weights are inverse variances: the rows whose seeds vary least decide.
Pooled pool_random_effects(const std::vector<Estimate>& estimates);

}  // namespace covnoise
