#pragma once
#include "plot/layout/axes.h"

namespace covnoise::plot {

void draw_layers(Canvas& canvas, const View& view);

}  // namespace covnoise::plot
