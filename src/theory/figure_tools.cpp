#include "theory/figure_tools.h"

#include <algorithm>
#include <cmath>

namespace covnoise::theory {

plot::Contours contours_of(const std::function<double(double, double)>& function, std::array<double, 2> x_range,
                           std::array<double, 2> y_range, int levels) {
  constexpr int kSide = 81;
  plot::Contours contours;
  for (int i = 0; i < kSide; ++i) {
    const double t = i / (kSide - 1.0);
    contours.x.push_back(x_range[0] + t * (x_range[1] - x_range[0]));
    contours.y.push_back(y_range[0] + t * (y_range[1] - y_range[0]));
  }
  for (const double y : contours.y) {
    for (const double x : contours.x) contours.values.push_back(function(x, y));
  }
  const auto [low, high] = std::minmax_element(contours.values.begin(), contours.values.end());
  for (int k = 1; k <= levels; ++k) {
    contours.levels.push_back(*low + (*high - *low) * std::pow(static_cast<double>(k) / (levels + 1), 2));
  }
  return contours;
}

}  // namespace covnoise::theory
