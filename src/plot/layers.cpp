#include "plot/layers.h"

#include "plot/canvas/text_width.h"
#include "plot/contour.h"
#include "plot/markers.h"
#include "plot/theme.h"

#include <algorithm>

namespace covnoise::plot {
namespace {

constexpr double kTurn = 2 * 3.14159265358979323846;

class Painter {
 public:
  Painter(Canvas& canvas, const View& view) : canvas_(canvas), view_(view) {
    for (const auto& layer : view.panel->layers) groups_ += std::holds_alternative<Bars>(layer) ? 1 : 0;
  }

  void operator()(const Line& line) {
    if (!line.low.empty()) {
      Polyline band;
      for (std::size_t i = 0; i < line.low.size(); ++i) band.push_back(shown(line.x[i], line.low[i]));
      for (std::size_t i = line.high.size(); i-- > 0;) band.push_back(shown(line.x[i], line.high[i]));
      canvas_.path({band}, true, {color_of(line.style).faded(0.18), std::nullopt});
    }
    std::vector<Polyline> pieces(1);
    for (std::size_t i = 0; i < line.y.size(); ++i) {
      if (visible(line.x[i], line.y[i])) {
        pieces.back().push_back(view_.map(line.x[i], line.y[i]));
      } else if (!pieces.back().empty()) {
        pieces.emplace_back();
      }
    }
    canvas_.path(pieces, false, stroke(line.style));
    if (line.style.marker == Marker::kAuto || line.style.marker == Marker::kNone) return;
    for (const auto& piece : pieces) draw_markers(canvas_, piece, line.style);
  }

  void operator()(const Points& points) {
    Polyline centers;
    for (std::size_t i = 0; i < points.x.size(); ++i) {
      if (!visible(points.x[i], points.y[i])) continue;
      centers.push_back(view_.map(points.x[i], points.y[i]));
      if (i < points.error.size()) error_bar(points.x[i], points.y[i], points.error[i], color_of(points.style));
    }
    draw_markers(canvas_, centers, points.style);
  }

  void operator()(const Intervals& intervals) {
    Polyline centers;
    for (std::size_t i = 0; i < intervals.x.size(); ++i) {
      const double y = intervals.y[i];
      if (visible(intervals.low[i], y) && visible(intervals.high[i], y)) {
        bar(view_.map(intervals.low[i], y), view_.map(intervals.high[i], y), color_of(intervals.style));
      }
      if (visible(intervals.x[i], y)) centers.push_back(view_.map(intervals.x[i], y));
    }
    draw_markers(canvas_, centers, intervals.style);
  }

  void operator()(const Bars& bars) {
    const double width = 0.8 / groups_;
    const bool log = view_.panel->y.scale == Scale::kLog;
    const double base = log ? view_.ranges.y.min : std::clamp(0.0, view_.ranges.y.min, view_.ranges.y.max);
    const double dark = view_.panel->y.scale == Scale::kLog ? 0.9 : 0.85;
    for (std::size_t i = 0; i < bars.values.size(); ++i) {
      const double center = static_cast<double>(i) - 0.4 + (group_ + 0.5) * width;
      if (!visible(center, bars.values[i])) continue;
      const double left = view_.x(center - 0.45 * width), right = view_.x(center + 0.45 * width);
      const double top = view_.y(bars.values[i]), bottom = view_.y(base);
      canvas_.rectangle({left, std::min(top, bottom), right - left, std::abs(bottom - top)}, 0,
                        {color_of(bars.style).faded(dark), std::nullopt});
      double above = bars.values[i];
      if (i < bars.error.size() && bars.error[i] > 0) {
        error_bar(center, bars.values[i], bars.error[i], kInk);
        above += bars.error[i];
      }
      if (i >= bars.labels.size()) continue;
      label_above({view_.x(center), std::min(view_.y(above), bottom)}, bars.labels[i]);
    }
    ++group_;
  }

  void operator()(const Contours& contours) {
    const std::size_t count = contours.levels.size();
    const Point low = view_.map(contours.x.front(), contours.y.front()),
                high = view_.map(contours.x.back(), contours.y.back());
    if (contours.filled) canvas_.rectangle({low.x, high.y, high.x - low.x, low.y - high.y}, 0, {tint(1), std::nullopt});
    for (std::size_t k = count; k-- > 0;) {
      auto loops = contour_loops(contours, contours.levels[k]);
      for (auto& loop : loops) {
        for (auto& point : loop) point = view_.map(point.x, point.y);
      }
      Paint paint{std::nullopt, Stroke{{140, 152, 168}, 0.7}};
      if (contours.filled) paint.fill = tint(static_cast<double>(k) / static_cast<double>(count));
      canvas_.path(loops, true, paint);
    }
  }

  void operator()(const Ellipse& ellipse) {
    // The Cholesky factor of the covariance maps the circle to the ellipse.
    const double a = std::sqrt(ellipse.covariance[0]), b = a > 0 ? ellipse.covariance[1] / a : 0;
    const double c = std::sqrt(std::max(0.0, ellipse.covariance[2] - b * b));
    Polyline outline;
    for (int i = 0; i < 90; ++i) {
      const double angle = i * (kTurn / 90);
      const double u = ellipse.radius * std::cos(angle), v = ellipse.radius * std::sin(angle);
      outline.push_back(view_.map(ellipse.center[0] + a * u, ellipse.center[1] + b * u + c * v));
    }
    canvas_.path({outline}, true, stroke(ellipse.style));
  }

  void operator()(const Rule& rule) {
    const Rect& area = view_.area;
    std::vector<Polyline> lines;
    if (rule.y) lines.push_back({{area.x, view_.y(*rule.y)}, {area.right(), view_.y(*rule.y)}});
    if (rule.x) lines.push_back({{view_.x(*rule.x), area.y}, {view_.x(*rule.x), area.bottom()}});
    canvas_.path(lines, false, stroke(rule.style));
  }

  void operator()(const Note& note) {
    const double width = text_width(note.text, kTickSize);
    Point at = view_.map(note.x, note.y);
    at.x = at.x + 6 + width > view_.area.right() ? at.x - 6 - width : at.x + 6;
    canvas_.text({at.x, at.y - 5}, note.text, {kTickSize, kInk});
  }

 private:
  static Paint stroke(const Style& style) {
    return {std::nullopt, Stroke{color_of(style), style.width, dash_of(style)}};
  }
  /// From white for the lowest band to light blue for the highest: coloured points stay readable on all of them.
  static Color tint(double fraction) {
    const auto mix = [&](int from, int to) { return static_cast<int>(std::lround(from + fraction * (to - from))); };
    return {mix(255, 203), mix(255, 217), mix(255, 234)};
  }
  bool visible(double x, double y) const {
    return std::isfinite(x) && std::isfinite(y) && (view_.panel->x.scale == Scale::kLinear || x > 0) &&
           (view_.panel->y.scale == Scale::kLinear || y > 0);
  }
  /// A point of a band; values that a logarithmic axis cannot show are placed below its lower end.
  Point shown(double x, double y) const {
    return view_.map(x, view_.panel->y.scale == Scale::kLog ? std::max(y, view_.ranges.y.min * 1e-3) : y);
  }
  /// On a white background, so that rules and grid lines do not cross the text.
  void label_above(Point at, const std::string& text) {
    const double width = 0.8 * text_width(text, kTickSize);
    canvas_.rectangle({at.x - width / 2, at.y - kTickSize - 5, width, kTickSize + 2}, 2, {kCard, std::nullopt});
    canvas_.text({at.x, at.y - 5}, text, {kTickSize, kInk, Anchor::kMiddle});
  }
  void error_bar(double x, double y, double error, Color color) {
    if (std::isfinite(error)) bar(shown(x, y - error), shown(x, y + error), color);
  }
  /// A horizontal or vertical bar, clipped to the panel.
  void bar(Point a, Point b, Color color) {
    const Point from = inside(a), to = inside(b);
    const double length = std::hypot(to.x - from.x, to.y - from.y);
    if (length == 0) return;
    const Point along{(to.x - from.x) / length, (to.y - from.y) / length};
    canvas_.path({{from, to}, bar_end(a, from, {-along.x, -along.y}), bar_end(b, to, along)}, false,
                 {std::nullopt, Stroke{color, 1.2}});
  }
  Point inside(Point p) const {
    const Rect& area = view_.area;
    return {std::clamp(p.x, area.x, area.right()), std::clamp(p.y, area.y, area.bottom())};
  }
  /// A cap if the bar ends inside the panel, otherwise an arrowhead; `along` points out of the bar.
  static Polyline bar_end(Point end, Point drawn, Point along) {
    constexpr double kHalf = 3, kHead = 5;
    const bool arrow = end.x != drawn.x || end.y != drawn.y;
    const double back = arrow ? kHead : 0;
    const Point base{drawn.x - back * along.x, drawn.y - back * along.y}, side{-kHalf * along.y, kHalf * along.x};
    return {{base.x + side.x, base.y + side.y}, drawn, {base.x - side.x, base.y - side.y}};
  }

  Canvas& canvas_;
  const View& view_;
  int groups_ = 0;
  double group_ = 0;
};

}  // namespace

void draw_layers(Canvas& canvas, const View& view) {
  Painter painter(canvas, view);
  for (const auto& layer : view.panel->layers) std::visit(painter, layer);
}

}  // namespace covnoise::plot
