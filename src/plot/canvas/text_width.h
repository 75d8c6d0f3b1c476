#pragma once
#include <string>
#include <vector>

namespace covnoise::plot {

/// An upper estimate of the width of a line of UTF-8 text in pixels; the font that will be used is not known.
double text_width(const std::string& text, double size, bool bold = false);

/// Breaks text at spaces into lines of at most `width` pixels (longer words are not broken).
std::vector<std::string> wrap_text(const std::string& text, double size, double width);

}  // namespace covnoise::plot
