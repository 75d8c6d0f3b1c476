#pragma once
#include "plot/canvas/canvas.h"

namespace covnoise::plot {

/// Draws one or more markers of one style.
void draw_markers(Canvas& canvas, const Polyline& centers, const Style& style);

}  // namespace covnoise::plot
