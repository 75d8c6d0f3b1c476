#pragma once
#include "datasets/formats/image_file.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

namespace covnoise {

using Colour = std::array<std::uint8_t, 3>;

/// An RGB picture to draw on. What falls outside is cut off.
class Canvas {
 public:
  Canvas(std::int64_t width, std::int64_t height, Colour paper);

  void fill(std::int64_t left, std::int64_t top, std::int64_t width, std::int64_t height, Colour colour);
  /// Text in the bitmap font, each of its pixels `scale` wide; UTF-8 beyond ASCII shows as one '?' a character.
  void text(std::int64_t left, std::int64_t top, const std::string& text, std::int64_t scale, Colour colour);
  /// A uint8 image [C, H, W] with one channel or three, each pixel `scale` wide.
  void image(std::int64_t left, std::int64_t top, const at::Tensor& image, std::int64_t scale);

  static std::int64_t text_width(const std::string& text, std::int64_t scale);
  const Image& picture() const { return picture_; }

 private:
  Image picture_;
};

}  // namespace covnoise
