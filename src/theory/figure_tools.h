#pragma once
#include "covnoise/plot/figure.h"

#include <array>
#include <functional>

namespace covnoise::theory {

/// Contours of a function at levels with evenly spaced square roots: those of a quadratic are evenly spaced ellipses.
plot::Contours contours_of(const std::function<double(double, double)>& function, std::array<double, 2> x_range,
                           std::array<double, 2> y_range, int levels);

}  // namespace covnoise::theory
