#include "datasets/formats/webp.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#ifdef COVNOISE_HAS_WEBP
#include <webp/decode.h>
#endif

namespace covnoise {

#ifdef COVNOISE_HAS_WEBP

Image decode_webp(const std::string& bytes, const std::string& where, std::int64_t most_pixels) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("{}: not a readable WebP file: {}", where, why));
  };
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) refuse("libwebp has another version than its headers");
  if (WebPGetFeatures(data, bytes.size(), &config.input) != VP8_STATUS_OK) refuse("bad header");
  if (config.input.has_animation) refuse("animations are not supported");
  Image image{config.input.width, config.input.height, 3, {}};
  if (image.width * image.height > most_pixels)
    throw Error(fmt::format("{}: {} x {} pixels; at most {} are read", where, image.width, image.height, most_pixels));
  const auto pixels = static_cast<std::size_t>(image.width * image.height);
  std::vector<std::uint8_t> rgba(4 * pixels);
  config.output.colorspace = MODE_rgbA;  // multiplied by alpha: blended with black
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {rgba.data(), static_cast<int>(4 * image.width), rgba.size()};
  const auto status = WebPDecode(data, bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) refuse(status == VP8_STATUS_NOT_ENOUGH_DATA ? "it ends too early" : "damaged data");
  image.pixels.resize(3 * pixels);
  for (std::size_t i = 0; i < pixels; ++i)
    for (std::size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = rgba[4 * i + c];
  return image;
}

#else

Image decode_webp(const std::string&, const std::string& where, std::int64_t) {
  throw Error(
      fmt::format("{}: this covnoise was built without libwebp: install libwebp-dev and build again, or convert "
                  "the images to PNG",
                  where));
}

#endif

}  // namespace covnoise
