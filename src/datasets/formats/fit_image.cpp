#include "datasets/formats/fit_image.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

/// The input pixels behind one output pixel, with weights that sum to 1.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

/// A triangle around the centre of each output pixel, as wide as two pixels of the coarser side.
std::vector<Taps> make_taps(std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(out));
  for (std::int64_t o = 0; o < out; ++o) {
    const double centre = (static_cast<double>(o) + 0.5) * scale;
    auto& taps = all[static_cast<std::size_t>(o)];
    taps.first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach + 0.5));
    const std::int64_t end = std::min(in, static_cast<std::int64_t>(centre + reach + 0.5));
    double sum = 0;
    for (std::int64_t i = taps.first; i < end; ++i)
      sum += std::max(0.0, 1 - std::abs((static_cast<double>(i) + 0.5 - centre) / reach));
    for (std::int64_t i = taps.first; i < end; ++i)
      taps.weights.push_back(
          static_cast<float>(std::max(0.0, 1 - std::abs((static_cast<double>(i) + 0.5 - centre) / reach)) / sum));
  }
  return all;
}

Image resized(const Image& image, std::int64_t width, std::int64_t height) {
  const std::int64_t channels = image.channels, line = width * channels;
  const auto columns = make_taps(image.width, width), rows = make_taps(image.height, height);
  std::vector<float> narrow(static_cast<std::size_t>(image.height * line));  // resized along the rows
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* in = image.pixels.data() + y * image.width * channels;
    float* out = narrow.data() + y * line;
    for (const auto& [first, weights] : columns) {
      for (std::int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (std::size_t i = 0; i < weights.size(); ++i)
          sum += weights[i] * static_cast<float>(in[(first + static_cast<std::int64_t>(i)) * channels + c]);
        *out++ = sum;
      }
    }
  }
  Image result{width, height, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(height * line))};
  std::uint8_t* out = result.pixels.data();
  for (const auto& [first, weights] : rows) {
    for (std::int64_t x = 0; x < line; ++x) {
      float sum = 0;
      for (std::size_t i = 0; i < weights.size(); ++i)
        sum += weights[i] * narrow[static_cast<std::size_t>((first + static_cast<std::int64_t>(i)) * line + x)];
      *out++ = static_cast<std::uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
    }
  }
  return result;
}

Image central_square(const Image& image, std::int64_t side) {
  require(image.width >= side && image.height >= side,
          fmt::format("{} x {} pixels (width x height) are smaller than data.crop = {}; raise data.resize", image.width,
                      image.height, side));
  const std::int64_t top = (image.height - side) / 2, left = (image.width - side) / 2;
  Image result{side, side, image.channels, {}};
  for (std::int64_t y = 0; y < side; ++y) {
    const auto begin = image.pixels.begin() + ((top + y) * image.width + left) * image.channels;
    result.pixels.insert(result.pixels.end(), begin, begin + side * image.channels);
  }
  return result;
}

}  // namespace

Image fit_image(Image image, const Fit& fit) {
  const std::int64_t shorter = std::min(image.width, image.height);
  if (fit.resize > 0 && fit.resize != shorter)
    image = resized(image, image.width * fit.resize / shorter, image.height * fit.resize / shorter);
  return fit.crop > 0 ? central_square(image, fit.crop) : image;
}

}  // namespace covnoise
