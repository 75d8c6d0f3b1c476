#include "datasets/formats/image_file.h"

#include "fuzz.h"

#include <zlib.h>

namespace {

std::uint32_t png_number(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// Puts the right checksum behind every chunk: length, type, data, CRC-32 of type and data.
std::string with_crcs(std::string_view input) {
  std::string bytes(input);
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    const std::size_t length = png_number(bytes, at), left = bytes.size() - at - 12;
    if (length > left) break;
    const auto* type = reinterpret_cast<const Bytef*>(bytes.data() + at + 4);
    const auto crc = static_cast<std::uint32_t>(crc32(0, type, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
  return bytes;
}

}  // namespace

FUZZ_TARGET(png, 2048) {
  const bool repair = covnoise::fuzz::take_choice(input) % 4 != 0;
  covnoise::decode_image(repair ? with_crcs(input) : std::string(input), "input");
}
