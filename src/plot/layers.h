#pragma once
#include "plot/layout/axes.h"

namespace covnoise::plot {

/// Gives every layer of every panel its colour: the same name, the same colour, also across panels that share a legend;
/// different names, different colours or markers.
Figure with_colors(Figure figure);

void draw_layers(Canvas& canvas, const View& view);

}  // namespace covnoise::plot
