#include "plot/canvas/text_width.h"

#include <sstream>
#include <string_view>

namespace covnoise::plot {
namespace {

/// Advance of a character relative to the font size, by groups, for the wider of the usual sans-serif fonts.
double advance(unsigned char c) {
  constexpr std::string_view kNarrow = " .,:;'|!ijlI()[]frt/-";
  constexpr std::string_view kWide = "mwMW%@+=<>";
  if (kNarrow.find(static_cast<char>(c)) != std::string_view::npos) return 0.38;
  if (kWide.find(static_cast<char>(c)) != std::string_view::npos) return 0.88;
  return c >= 'A' && c <= 'Z' ? 0.68 : 0.60;
}

}  // namespace

double text_width(const std::string& text, double size, bool bold) {
  double ems = 0;
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (c < 0x80) {
      ems += advance(c);
    } else if (c >= 0xC0) {  // the first byte of a longer character; superscripts begin with C2 and E2
      ems += c == 0xC2 || c == 0xE2 ? 0.50 : 0.64;
    }
  }
  return ems * size * (bold ? 1.08 : 1.0);
}

std::vector<std::string> wrap_text(const std::string& text, double size, double width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty() && text_width(lines.back() + " " + word, size) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace covnoise::plot
