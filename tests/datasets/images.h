// Writes small pictures for the tests of folders.
#pragma once
#include "datasets/formats/image_file.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace covnoise::testing {

/// A picture of a single colour or grey value.
inline Image plain(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& colour) {
  Image image{width, height, static_cast<std::int64_t>(colour.size()), {}};
  for (std::int64_t i = 0; i < width * height; ++i)
    image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
  return image;
}

inline void put_png(const std::filesystem::path& path, const Image& image) {
  std::filesystem::create_directories(path.parent_path());
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  ASSERT_NE(png_image_write_to_file(&png, path.c_str(), 0, image.pixels.data(), 0, nullptr), 0) << png.message;
}

}  // namespace covnoise::testing
