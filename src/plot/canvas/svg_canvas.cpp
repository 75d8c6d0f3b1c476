#include "plot/canvas/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::plot {
namespace {

/// Hundredths of a pixel, without useless zeros.
std::string number(double value) {
  const long hundredths = std::lround(value * 100);
  if (hundredths % 100 == 0) return std::to_string(hundredths / 100);
  std::string text = fmt::format("{:.2f}", static_cast<double>(hundredths) / 100);
  if (text.back() == '0') text.pop_back();
  return text;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string color_attribute(const char* name, const Color& color) {
  std::string text = fmt::format(" {}=\"#{:02x}{:02x}{:02x}\"", name, color.red, color.green, color.blue);
  if (color.alpha < 1) text += fmt::format(" {}-opacity=\"{}\"", name, number(color.alpha));
  return text;
}

std::string attributes(const Paint& paint) {
  std::string text = paint.fill ? color_attribute("fill", *paint.fill) : " fill=\"none\"";
  if (!paint.stroke) return text;
  text += color_attribute("stroke", paint.stroke->color);
  text += fmt::format(" stroke-width=\"{}\"", number(paint.stroke->width));
  const auto dashes = dash_pattern(paint.stroke->dash);
  if (dashes.empty()) return text;
  text += " stroke-dasharray=\"";
  for (std::size_t i = 0; i < dashes.size(); ++i) {
    text += (i == 0 ? "" : " ") + number(dashes[i] * paint.stroke->width);
  }
  return text + "\"";
}

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

class SvgCanvas final : public Canvas {
 public:
  SvgCanvas(double width, double height, const std::string& description) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
        "font-family=\"Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif\" stroke-linejoin=\"round\">\n"
        "<title>{2}</title>\n",
        number(width), number(height), escaped(description));
  }

  void path(const std::vector<Polyline>& pieces, bool closed, const Paint& paint) override {
    std::string d;
    for (const auto& piece : pieces) {
      char command = 'M';
      for (const auto& point : piece) {
        d += command + number(point.x) + ' ' + number(point.y);
        command = 'L';
      }
      if (closed && !piece.empty()) d += 'Z';
    }
    if (d.empty()) return;
    out_ += "<path d=\"" + d + '"' + attributes(paint) + (paint.fill ? " fill-rule=\"evenodd\"/>\n" : "/>\n");
  }

  void circles(const Polyline& centers, double radius, const Paint& paint) override {
    out_ += "<g" + attributes(paint) + ">\n";
    for (const auto& center : centers) {
      out_ +=
          fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", number(center.x), number(center.y), number(radius));
    }
    out_ += "</g>\n";
  }

  void rectangle(const Rect& rect, double corner_radius, const Paint& paint) override {
    out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(rect.x), number(rect.y),
                        number(rect.width), number(rect.height));
    if (corner_radius > 0) out_ += fmt::format(" rx=\"{}\"", number(corner_radius));
    out_ += attributes(paint) + "/>\n";
  }

  void image(const Rect& rect, const Image& image) override {
    out_ += fmt::format(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
        "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
        number(rect.x), number(rect.y), number(rect.width), number(rect.height), base64(encode_png(image)));
  }

  void text(Point at, const std::string& text, const TextStyle& style) override {
    static const char* const kAnchors[] = {"start", "middle", "end"};
    out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\"", number(at.x), number(at.y),
                        number(style.size), kAnchors[static_cast<int>(style.anchor)]);
    if (style.bold) out_ += " font-weight=\"600\"";
    if (style.upward) out_ += fmt::format(" transform=\"rotate(-90 {} {})\"", number(at.x), number(at.y));
    out_ += color_attribute("fill", style.color) + ">" + escaped(text) + "</text>\n";
  }

  void begin_clip(const Rect& rect) override {
    // The name carries the rectangle: figures inlined into one page then share a clip only where it is the same.
    const std::string name = fmt::format("clip-{}-{}-{}-{}", std::lround(rect.x * 10), std::lround(rect.y * 10),
                                         std::lround(rect.width * 10), std::lround(rect.height * 10));
    out_ += "<clipPath id=\"" + name + "\">";
    rectangle(rect, 0, {});
    out_ += "</clipPath>\n<g clip-path=\"url(#" + name + ")\">\n";
  }
  void end_clip() override { out_ += "</g>\n"; }

  std::string bytes() override { return out_ + "</svg>\n"; }

 private:
  std::string out_;
};

}  // namespace

std::vector<double> dash_pattern(Dash dash) {
  switch (dash) {
    case Dash::kDashed:
      return {4.5, 2.5};
    case Dash::kDotted:
      return {1.2, 1.8};
    case Dash::kDashDotted:
      return {5, 2, 1.2, 2};
    default:
      return {};
  }
}

std::unique_ptr<Canvas> make_svg_canvas(double width, double height, const std::string& description) {
  return std::make_unique<SvgCanvas>(width, height, description);
}

}  // namespace covnoise::plot
