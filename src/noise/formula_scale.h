#pragma once
#include <cstdint>

namespace covnoise {

/// s^2 = (M_L - M_S) / (M_L M_S) = 1/M_S - 1/M_L; 0 unless the large batch is larger.
inline double formula_scale_squared(std::int64_t small, std::int64_t large) {
  return large > small ? 1.0 / static_cast<double>(small) - 1.0 / static_cast<double>(large) : 0.0;
}

}  // namespace covnoise
