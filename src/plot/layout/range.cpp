#include "plot/layout/range.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace covnoise::plot {
namespace {

/// The smallest and the largest value that an axis can show.
class Extent {
 public:
  explicit Extent(const Axis& axis) : axis_(axis) {}

  void include(double value) {
    if (!std::isfinite(value) || (axis_.scale == Scale::kLog && value <= 0)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  void include(const std::vector<double>& values) {
    for (const double value : values) include(value);
  }

  Range range(double margin) const {
    Range range{low_, high_};
    if (!(low_ <= high_)) range = {axis_.scale == Scale::kLog ? 0.1 : 0.0, 1.0};
    if (axis_.scale == Scale::kLog) {
      const double factor = range.max > range.min ? std::pow(range.max / range.min, margin) : 2;
      range = {range.min / factor, range.max * factor};
    } else {
      const double pad = range.max > range.min ? margin * (range.max - range.min) : std::max(0.5, 0.1 * std::abs(low_));
      // Data that are never negative and start at zero get no margin below zero.
      const bool never_positive = range.max == 0 && range.min < 0;
      range = {range.min == 0 ? 0 : range.min - pad, never_positive ? 0 : range.max + pad};
    }
    return {axis_.min.value_or(range.min), axis_.max.value_or(range.max)};
  }

 private:
  const Axis& axis_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

/// Includes the values that a layer shows.
struct LayerExtent {
  Extent& x;
  Extent& y;

  void operator()(const Line& line) const {
    x.include(line.x);
    for (const auto* values : {&line.y, &line.low, &line.high}) y.include(*values);
  }
  void operator()(const Points& points) const {
    x.include(points.x);
    y.include(points.y);
    with_errors(points.y, points.error);
  }
  void operator()(const Intervals& intervals) const {
    for (const auto* values : {&intervals.x, &intervals.low, &intervals.high}) x.include(*values);
    y.include(intervals.y);
  }
  void operator()(const Bars& bars) const {
    y.include(0);
    y.include(bars.values);
    with_errors(bars.values, bars.error);
  }
  void operator()(const Contours& contours) const {
    x.include(contours.x);
    y.include(contours.y);
  }
  void operator()(const Ellipse& ellipse) const {
    for (const double sign : {-1.0, 1.0}) {
      x.include(ellipse.center[0] + sign * ellipse.radius * std::sqrt(ellipse.covariance[0]));
      y.include(ellipse.center[1] + sign * ellipse.radius * std::sqrt(ellipse.covariance[2]));
    }
  }
  void operator()(const Rule& rule) const {
    if (rule.x) x.include(*rule.x);
    if (rule.y) y.include(*rule.y);
  }
  void operator()(const Note& note) const {
    x.include(note.x);
    y.include(note.y);
  }

  void with_errors(const std::vector<double>& values, const std::vector<double>& error) const {
    for (std::size_t i = 0; i < std::min(values.size(), error.size()); ++i) {
      y.include(values[i] - error[i]);
      y.include(values[i] + error[i]);
    }
  }
};

/// Widens `range` around its centre to `length`.
void widen(Range& range, double length) {
  const double middle = (range.min + range.max) / 2;
  range = {middle - length / 2, middle + length / 2};
}

}  // namespace

Ranges panel_ranges(const Panel& panel, double width, double height) {
  Extent x(panel.x), y(panel.y);
  bool bars = false, filled = false;
  for (const auto& layer : panel.layers) {
    std::visit(LayerExtent{x, y}, layer);
    bars = bars || std::holds_alternative<Bars>(layer);
    filled = filled || std::holds_alternative<Contours>(layer);
  }
  Ranges ranges{x.range(filled ? 0 : 0.03), y.range(filled ? 0 : bars ? 0.12 : 0.06)};
  if (!panel.x.categories.empty()) ranges.x = {-0.6, static_cast<double>(panel.x.categories.size()) - 0.4};
  if (!panel.y.categories.empty()) ranges.y = {static_cast<double>(panel.y.categories.size()) - 0.4, -0.6};
  if (panel.equal_scales) {
    const double unit = std::max((ranges.x.max - ranges.x.min) / width, (ranges.y.max - ranges.y.min) / height);
    widen(ranges.x, unit * width);
    widen(ranges.y, unit * height);
  }
  return ranges;
}

}  // namespace covnoise::plot
