#pragma once
#include "plot/canvas/canvas.h"
#include "plot/layout/range.h"

#include <cmath>

namespace covnoise::plot {

/// A panel with its ranges, its ticks and the mapping from data to pixels.
struct View {
  const Panel* panel = nullptr;
  Rect area{};  ///< where the data are drawn
  Ranges ranges{};
  std::vector<Tick> x_ticks, y_ticks;

  double x(double value) const { return area.x + area.width * fraction(panel->x.scale, ranges.x, value); }
  double y(double value) const { return area.bottom() - area.height * fraction(panel->y.scale, ranges.y, value); }
  Point map(double x_value, double y_value) const { return {x(x_value), y(y_value)}; }

  static double fraction(Scale scale, Range range, double value) {
    if (scale == Scale::kLog) return std::log(value / range.min) / std::log(range.max / range.min);
    return (value - range.min) / (range.max - range.min);
  }
};

/// Chooses ranges and ticks for a plot area of this size; labels of neighbouring ticks do not touch.
View make_view(const Panel& panel, double width, double height);

/// Space that tick labels and the axis label need to the left of the plot area and below it.
double left_margin(const View& view);
double bottom_margin(const View& view);

void draw_grid(Canvas& canvas, const View& view);
/// Draws frame, ticks and labels; call it after the data are drawn.
void draw_axes(Canvas& canvas, const View& view);

}  // namespace covnoise::plot
