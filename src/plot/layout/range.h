#pragma once
#include "plot/layout/ticks.h"

namespace covnoise::plot {

/// The ranges of a panel's axes: the given limits, otherwise the data and a margin. Positive on logarithmic axes, never
/// of length zero.
struct Ranges {
  Range x, y;
};
Ranges panel_ranges(const Panel& panel, double width, double height);

}  // namespace covnoise::plot
