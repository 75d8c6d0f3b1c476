#include "datasets/canvas.h"

#include "datasets/bitmap_font.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace covnoise {
namespace {

/// One char for each character: the bytes that go on with a UTF-8 character are dropped.
std::string one_byte_each(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) out.push_back(c);
  }
  return out;
}

}  // namespace

Canvas::Canvas(std::int64_t width, std::int64_t height, Colour paper) {
  picture_ = {width, height, 3, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))};
  fill(0, 0, width, height, paper);
}

void Canvas::fill(std::int64_t left, std::int64_t top, std::int64_t width, std::int64_t height, Colour colour) {
  const std::int64_t right = std::min(picture_.width, left + width), bottom = std::min(picture_.height, top + height);
  for (std::int64_t y = std::max<std::int64_t>(0, top); y < bottom; ++y) {
    for (std::int64_t x = std::max<std::int64_t>(0, left); x < right; ++x) {
      std::copy(colour.begin(), colour.end(), picture_.pixels.begin() + (y * picture_.width + x) * 3);
    }
  }
}

std::int64_t Canvas::text_width(const std::string& text, std::int64_t scale) {
  return static_cast<std::int64_t>(one_byte_each(text).size()) * (kFontWidth + 1) * scale;
}

void Canvas::text(std::int64_t left, std::int64_t top, const std::string& text, std::int64_t scale, Colour colour) {
  for (const char c : one_byte_each(text)) {
    for (int y = 0; y < kFontHeight; ++y) {
      for (int x = 0; x < kFontWidth; ++x) {
        if (font_pixel(c, x, y)) fill(left + x * scale, top + y * scale, scale, scale, colour);
      }
    }
    left += (kFontWidth + 1) * scale;
  }
}

void Canvas::image(std::int64_t left, std::int64_t top, const at::Tensor& image, std::int64_t scale) {
  const at::Tensor dense = image.expand({3, image.size(1), image.size(2)}).contiguous();
  const std::int64_t height = dense.size(1), width = dense.size(2), area = height * width;
  const auto* pixels = dense.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < area; ++i) {
    const Colour colour{pixels[i], pixels[area + i], pixels[2 * area + i]};
    fill(left + i % width * scale, top + i / width * scale, scale, scale, colour);
  }
}

}  // namespace covnoise
