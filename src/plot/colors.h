#pragma once
#include "covnoise/plot/figure.h"

namespace covnoise::plot {

/// Gives every layer of every panel its colour. Equal names have equal colours, across panels if they share a legend;
/// different names differ in colour or marker.
Figure with_colors(Figure figure);

}  // namespace covnoise::plot
