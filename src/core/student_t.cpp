#include "covnoise/core/internal/student_t.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace covnoise {
namespace {

/// The coefficient of x in step m >= 1 of the continued fraction of DLMF 8.17.22.
double fraction_coefficient(double a, double b, int m) {
  const int half = m / 2;  // m is 2k or 2k + 1
  const double k = half;
  if (m % 2 == 0) return k * (b - k) / ((a + 2 * k - 1) * (a + 2 * k));
  return -(a + k) * (a + b + k) / ((a + 2 * k) * (a + 2 * k + 1));
}

/// 1 / (1 + d_1 x / (1 + d_2 x / (1 + ...))) by Lentz's method; converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecision = 1e-15;
  constexpr int kMostSteps = 10000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 0, fraction = 1;
  for (int m = 1; m <= kMostSteps; ++m) {
    const double step = fraction_coefficient(a, b, m) * x;
    d = 1 / away_from_zero(1 + step * d);
    c = away_from_zero(1 + step / c);
    fraction *= c * d;
    if (std::abs(c * d - 1) < kPrecision) break;
  }
  return 1 / fraction;
}

}  // namespace

double regularized_incomplete_beta(double a, double b, double x) {
  TORCH_CHECK(a > 0 && b > 0 && x >= 0 && x <= 1, "incomplete beta function: a = ", a, " and b = ", b,
              " must be positive and x = ", x, " must lie in [0, 1]");
  if (x == 0 || x == 1) return x;
  if (x > (a + 1) / (a + b + 2)) return 1 - regularized_incomplete_beta(b, a, 1 - x);
  const double log_beta = std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
  return std::exp(a * std::log(x) + b * std::log1p(-x) - log_beta) * beta_fraction(a, b, x) / a;
}

double student_t_two_sided(double t, double degrees) {
  TORCH_CHECK(degrees > 0, "Student's t needs a positive number of degrees of freedom, not ", degrees);
  return regularized_incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_t_critical(double level, double degrees) {
  TORCH_CHECK(level > 0 && level < 1, "the level ", level, " must lie between 0 and 1");
  double low = 0, high = 1;
  while (student_t_two_sided(high, degrees) > 1 - level) high *= 2;
  for (;;) {  // bisection down to neighbouring numbers
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) return middle;
    (student_t_two_sided(middle, degrees) > 1 - level ? low : high) = middle;
  }
}

}  // namespace covnoise
