#include "covnoise/analysis/measured.h"

#include <cmath>

namespace covnoise {

Measured mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  for (const double v : values) squares += (v - sum / n) * (v - sum / n);
  return {sum / n, std::sqrt(squares / (n - 1) / n)};
}

Measured ratio(const Measured& a, const Measured& b) {
  const double value = a.value / b.value;
  return {value, std::abs(value) * std::hypot(a.error / a.value, b.error / b.value)};
}

Measured root(const Measured& a) {
  const double value = std::sqrt(a.value);
  return {value, a.error / (2 * value)};
}

}  // namespace covnoise
