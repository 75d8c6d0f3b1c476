#pragma once
#include "plot/canvas/canvas.h"

#include <vector>

namespace covnoise::plot {

/// The border of the region where the function is at most `level`, as closed loops in the grid's coordinates. Where the
/// region reaches the edge of the grid, its border runs along the edge.
std::vector<Polyline> contour_loops(const Contours& grid, double level);

}  // namespace covnoise::plot
