#pragma once

namespace covnoise {

constexpr int kFontWidth = 5, kFontHeight = 9;

/// Whether the pixel (x, y) of a character is ink; characters outside printable ASCII are drawn as '?'.
bool font_pixel(char character, int x, int y);

}  // namespace covnoise
