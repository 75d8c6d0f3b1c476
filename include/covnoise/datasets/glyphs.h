#pragma once
#include "covnoise/data/dataset.h"

namespace covnoise {

/// Ten capital letters, 1x28x28, drawn by the program itself: random shape, slant, thickness, wear, clutter and noise.
/// The same bytes on every machine, in about a second.
DataSource make_glyphs();

}  // namespace covnoise
