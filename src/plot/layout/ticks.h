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

/// A number as people write it: 0.05, 12 000, 3×10⁻⁷.
std::string number_label(double value, int decimals);

/// At most `most` ticks at multiples of 1, 2 or 5 times a power of ten; the next finer step if there would be only one
/// tick.
std::vector<Tick> linear_ticks(Range range, int most);

/// Ticks at powers of ten: only every second, third, ... if there are many, at 2 and 5 as well if there are few.
std::vector<Tick> log_ticks(Range range, int most);

std::vector<Tick> make_ticks(Scale scale, Range range, int most);

}  // namespace covnoise::plot
