#pragma once
#include "covnoise/data/dataset.h"

namespace covnoise {

/// Ten kinds of two-coloured patterns, 3x32x32, drawn by the program itself: random scale, angle, phase, warp, colours,
/// light, clutter and noise. The colours say nothing about the class. The same bytes on every machine, in about a
/// second.
DataSource make_textures();

}  // namespace covnoise
