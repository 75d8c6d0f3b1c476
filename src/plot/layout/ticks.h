#pragma once
#include "covnoise/plot/figure.h"

#include <string>
#include <vector>

namespace covnoise::plot {

struct Range {
  double min, max;
};

struct Tick {
  double value;
  std::string label;  ///< empty: a minor tick
};

/// A number for a person: 0.05, 12 000, 3×10⁻⁷.
std::string number_label(double value, int decimals);

/// Ticks at multiples of 1, 2 or 5 times a power of ten, at most `most` of them; at those of the next finer step where
/// that would leave a single one.
std::vector<Tick> linear_ticks(Range range, int most);

/// Ticks at powers of ten, every second, third, ... where there are many; at 2 and 5 as well where there are few.
std::vector<Tick> log_ticks(Range range, int most);

std::vector<Tick> make_ticks(Scale scale, Range range, int most);

}  // namespace covnoise::plot
