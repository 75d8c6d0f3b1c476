#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace covnoise::plot {

/// 8-bit RGB pixels [height, width, 3].
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};

/// The bytes of a PNG file, one pixel per pixel. Needs libpng only.
std::string encode_png(const Image& image);

}  // namespace covnoise::plot
