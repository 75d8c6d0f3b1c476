#pragma once
#include "plot/layout/axes.h"

namespace covnoise::plot {

/// Gives every layer of every panel its colour: the same name, the same colour, also across panels that share a legend.
Figure with_colors(Figure figure);

void draw_layers(Canvas& canvas, const View& view);

/// One marker or several, of one style.
void draw_markers(Canvas& canvas, const Polyline& centers, const Style& style);

}  // namespace covnoise::plot
