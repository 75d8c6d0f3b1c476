#pragma once
#include "plot/layout/ticks.h"

namespace covnoise::plot {

/// What the axes of a panel must show: the given limits, else the data and a margin. Positive on logarithmic axes, of
/// non-zero length always.
struct Ranges {
  Range x, y;
};
Ranges panel_ranges(const Panel& panel, double width, double height);

}  // namespace covnoise::plot
