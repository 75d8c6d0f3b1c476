#pragma once
#include "covnoise/plot/figure.h"
#include "covnoise/plot/internal/image.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace covnoise::plot {

struct Point {
  double x, y;
};
using Polyline = std::vector<Point>;

struct Rect {
  double x, y, width, height;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct Color {
  int red, green, blue;
  double alpha = 1;
  Color faded(double factor) const { return {red, green, blue, alpha * factor}; }
};

struct Stroke {
  Color color;
  double width = 1;
  Dash dash = Dash::kSolid;
};

struct Paint {
  std::optional<Color> fill;
  std::optional<Stroke> stroke;
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 11;
  Color color{30, 34, 40};
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  bool upward = false;  ///< turned by a quarter, reading from below
};

/// What a figure is drawn on; y grows downwards, units are pixels. Positions of text are those of its baseline.
class Canvas {
 public:
  virtual ~Canvas() = default;
  /// All pieces are one shape: where filled, overlaps of two pieces are holes.
  virtual void path(const std::vector<Polyline>& pieces, bool closed, const Paint& paint) = 0;
  virtual void circles(const Polyline& centers, double radius, const Paint& paint) = 0;
  virtual void rectangle(const Rect& rect, double corner_radius, const Paint& paint) = 0;
  /// Fills the rectangle with the image; its pixels stay sharp-edged however large they are.
  virtual void image(const Rect& rect, const Image& image) = 0;
  virtual void text(Point at, const std::string& text, const TextStyle& style) = 0;
  virtual void begin_clip(const Rect& rect) = 0;
  virtual void end_clip() = 0;
  /// The finished file.
  virtual std::string bytes() = 0;
};

/// Lengths of dashes and gaps for a stroke of width 1; empty: solid.
std::vector<double> dash_pattern(Dash dash);

std::unique_ptr<Canvas> make_svg_canvas(double width, double height, const std::string& description);
/// nullptr where the build has no cairo.
std::unique_ptr<Canvas> make_png_canvas(double width, double height, double scale);
/// The same; an Error where the build has no cairo.
std::unique_ptr<Canvas> require_png_canvas(double width, double height, double scale);

}  // namespace covnoise::plot
