#pragma once
#include "covnoise/ops/philox.h"

#include <cstdint>

namespace covnoise {

constexpr std::int64_t kCropPadding = 4;  ///< black pixels on each side of an image that is cropped

/// Row and column of the crop's corner in the padded image, then the flip. Without augmentation: the image itself.
struct Crop {
  std::int64_t row = kCropPadding;
  std::int64_t column = kCropPadding;
  bool flip = false;
};

/// The crop of an example: words 0, 1 and 2 of its block.
inline Crop draw_crop(const RandomStream& stream, std::int64_t example) {
  const Philox4 words = stream.words(static_cast<std::uint64_t>(example));
  const auto offset = [](std::uint32_t word) {  // uniform in 0 .. 2 * kCropPadding
    return static_cast<std::int64_t>((std::uint64_t{word} * (2 * kCropPadding + 1)) >> 32);
  };
  return {offset(words.x[0]), offset(words.x[1]), (words.x[2] >> 31) != 0};
}

}  // namespace covnoise
