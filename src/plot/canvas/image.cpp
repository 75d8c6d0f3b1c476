#include "covnoise/plot/internal/image.h"

#include <c10/util/Exception.h>
#include <png.h>

namespace covnoise::plot {

std::string encode_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = bytes.size();
  TORCH_CHECK(png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) != 0,
              "an image of ", image.width, " x ", image.height, " pixels cannot be encoded as PNG: ", png.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace covnoise::plot
