#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// Pixels row by row, the channels of a pixel side by side.
struct Image {
  std::int64_t width = 0, height = 0, channels = 0;  // channels: 1 grey, 3 red, green, blue
  std::vector<std::uint8_t> pixels;
};

/// Decodes a PNG or JPEG file (told apart by their first bytes) to 8 bits per channel: grey files to one channel, all
/// others to three. Transparent pixels are blended with black.
Image read_image(const std::filesystem::path& path);
/// The same for a file in memory; `where` names it in messages.
Image decode_image(const std::string& bytes, const std::string& where);

}  // namespace covnoise
