#pragma once
#include <cstdint>
#include <vector>

namespace covnoise {

/// Mean and standard deviation (divisor n - 1; 0 for one value) of independent values; NaN without any value.
struct MeanStd {
  double mean = 0, deviation = 0;
  std::int64_t count = 0;
};
MeanStd mean_std_of(const std::vector<double>& values);

}  // namespace covnoise
