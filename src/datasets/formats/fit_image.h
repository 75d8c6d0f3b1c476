#pragma once
#include "datasets/formats/image_file.h"

#include <cstdint>

namespace covnoise {

/// How images of several sizes are brought to one.
struct Fit {
  std::int64_t resize = 0;  ///< the shorter side becomes this long, the other in proportion; 0: as it is
  std::int64_t crop = 0;    ///< then the central square of this side is cut out; 0: all of it
};

/// Bilinear interpolation; when an image shrinks, the filter covers all of its pixels (PyTorch's antialias=True). An
/// image smaller than the crop is an Error.
Image fit_image(Image image, const Fit& fit);

}  // namespace covnoise
