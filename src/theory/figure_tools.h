#pragma once
#include "covnoise/plot/figure.h"

#include <array>
#include <functional>

namespace covnoise::theory {

/// A function on a grid with lines of equal height at evenly spaced square roots: a quadratic's are evenly spaced
/// ellipses.
plot::Contours contours_of(const std::function<double(double, double)>& function, std::array<double, 2> x_range,
                           std::array<double, 2> y_range, int levels);

}  // namespace covnoise::theory
