#pragma once
#include <string>
#include <vector>

namespace covnoise::plot {

/// About the width of a line of UTF-8 text in pixels, rather too wide: the font that draws it is not known here.
double text_width(const std::string& text, double size, bool bold = false);

/// Breaks text at spaces into lines of at most `width` pixels (a longer word stays whole).
std::vector<std::string> wrap_text(const std::string& text, double size, double width);

}  // namespace covnoise::plot
