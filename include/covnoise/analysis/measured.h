#pragma once
#include <vector>

namespace covnoise {

/// A mean with its standard error.
struct Measured {
  double value = 0, error = 0;
};

/// Of independent values, at least two of them.
Measured mean_of(const std::vector<double>& values);

/// a / b for independent a and b, errors to first order.
Measured ratio(const Measured& a, const Measured& b);

/// The square root, its error to first order; NaN if the value is negative.
Measured root(const Measured& a);

}  // namespace covnoise
