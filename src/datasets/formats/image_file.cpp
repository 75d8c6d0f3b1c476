#include "datasets/formats/image_file.h"

#include "covnoise/core/error.h"
#include "datasets/formats/byte_file.h"
#include "datasets/formats/jpeg.h"

#include <fmt/format.h>
#include <png.h>

#include <string>

namespace covnoise {
namespace {

constexpr std::uint64_t kLargestImageFile = std::uint64_t{64} << 20;
constexpr std::int64_t kMostPixels = std::int64_t{1} << 24;

Image decode_png(const std::string& bytes, const std::string& where) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) {
    throw Error(fmt::format("{}: not a readable PNG file: {}", where, png.message));
  }
  const bool colour = (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image image{png.width, png.height, colour ? 3 : 1, {}};
  if (image.width * image.height > kMostPixels) {
    png_image_free(&png);
    throw Error(fmt::format("{}: {} x {} pixels; at most {} are read", where, image.width, image.height, kMostPixels));
  }
  image.pixels.resize(PNG_IMAGE_SIZE(png));
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr)) {
    throw Error(fmt::format("{}: not a readable PNG file: {}", where, png.message));
  }
  return image;
}

}  // namespace

Image read_image(const std::filesystem::path& path) {
  return decode_image(read_whole_file(path, kLargestImageFile), path.string());
}

Image decode_image(const std::string& bytes, const std::string& where) {
  if (bytes.compare(0, 4, "\x89PNG") == 0) return decode_png(bytes, where);
  if (bytes.compare(0, 2, "\xff\xd8") == 0) return decode_jpeg(bytes, where, kMostPixels);
  throw Error(fmt::format("{}: byte 0: neither PNG nor JPEG", where));
}

}  // namespace covnoise
