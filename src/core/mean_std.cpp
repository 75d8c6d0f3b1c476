#include "covnoise/core/internal/mean_std.h"

#include <cmath>

namespace covnoise {

MeanStd mean_std_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {NAN, NAN, 0};
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  for (const double v : values) squares += (v - sum / n) * (v - sum / n);
  return {sum / n, values.size() > 1 ? std::sqrt(squares / (n - 1)) : 0, static_cast<std::int64_t>(values.size())};
}

}  // namespace covnoise
