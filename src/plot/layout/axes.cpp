#include "plot/layout/axes.h"

#include "plot/canvas/text_width.h"
#include "plot/theme.h"

#include <algorithm>

namespace covnoise::plot {
namespace {

constexpr double kTickLength = 4;

/// The label of a category, wrapped to its share of the axis.
std::vector<std::string> category_lines(const View& view, std::size_t index) {
  const double share = view.area.width / static_cast<double>(view.panel->x.categories.size()) - 6;
  return wrap_text(view.panel->x.categories[index], kTickSize, share);
}

bool labels_collide(const View& view, const std::vector<Tick>& ticks) {
  double end = -1e300;
  for (const auto& tick : ticks) {
    if (tick.label.empty()) continue;
    const double half = text_width(tick.label, kTickSize) / 2, at = view.x(tick.value);
    if (at - half < end + 8) return true;
    end = at + half;
  }
  return false;
}

Paint line_paint(Color color, double width) { return {std::nullopt, Stroke{color, width}}; }

void draw_x_labels(Canvas& canvas, const View& view) {
  const TextStyle style{kTickSize, kSoftInk, Anchor::kMiddle};
  const double top = view.area.bottom() + kTickLength + kTickSize + 2;
  for (const auto& tick : view.x_ticks) {
    if (!tick.label.empty()) canvas.text({view.x(tick.value), top}, tick.label, style);
  }
  for (std::size_t i = 0; i < view.panel->x.categories.size(); ++i) {
    double baseline = top;
    for (const auto& line : category_lines(view, i)) {
      canvas.text({view.x(static_cast<double>(i)), baseline}, line, style);
      baseline += kTickSize + 2;
    }
  }
}

}  // namespace

View make_view(const Panel& panel, double width, double height) {
  View view;
  view.panel = &panel;
  view.area = {0, 0, width, height};
  view.ranges = panel_ranges(panel, width, height);
  if (panel.y.categories.empty()) {
    view.y_ticks = make_ticks(panel.y.scale, view.ranges.y, std::max(3, static_cast<int>(height / 38)));
  }
  for (std::size_t i = 0; i < panel.y.categories.size(); ++i) {
    view.y_ticks.push_back({static_cast<double>(i), panel.y.categories[i]});
  }
  if (!panel.x.categories.empty()) return view;
  for (int most = std::max(3, static_cast<int>(width / 48)); most >= 2; --most) {
    view.x_ticks = make_ticks(panel.x.scale, view.ranges.x, most);
    if (!labels_collide(view, view.x_ticks)) break;
  }
  return view;
}

double left_margin(const View& view) {
  double widest = 0;
  for (const auto& tick : view.y_ticks) widest = std::max(widest, text_width(tick.label, kTickSize));
  return widest + kTickLength + 6 + (view.panel->y.label.empty() ? 0 : kLabelSize + 8);
}

double bottom_margin(const View& view) {
  std::size_t lines = 1;
  for (std::size_t i = 0; i < view.panel->x.categories.size(); ++i) {
    lines = std::max(lines, category_lines(view, i).size());
  }
  const double labels = kTickLength + 4 + static_cast<double>(lines) * (kTickSize + 2);
  return labels + (view.panel->x.label.empty() ? 0 : kLabelSize + 8);
}

void draw_grid(Canvas& canvas, const View& view) {
  std::vector<Polyline> lines;
  for (const auto& tick : view.x_ticks) {
    const double at = view.x(tick.value);
    if (!tick.label.empty()) lines.push_back({{at, view.area.y}, {at, view.area.bottom()}});
  }
  for (const auto& tick : view.y_ticks) {
    const double at = view.y(tick.value);
    if (!tick.label.empty()) lines.push_back({{view.area.x, at}, {view.area.right(), at}});
  }
  canvas.path(lines, false, line_paint(kGrid, 1));
}

void draw_axes(Canvas& canvas, const View& view) {
  const Rect& area = view.area;
  std::vector<Polyline> ticks;
  for (const auto& tick : view.x_ticks) {
    const double at = view.x(tick.value), length = tick.label.empty() ? kTickLength / 2 : kTickLength;
    ticks.push_back({{at, area.bottom()}, {at, area.bottom() + length}});
  }
  for (const auto& tick : view.y_ticks) {
    const double at = view.y(tick.value), length = tick.label.empty() ? kTickLength / 2 : kTickLength;
    ticks.push_back({{area.x - length, at}, {area.x, at}});
    if (tick.label.empty()) continue;
    canvas.text({area.x - kTickLength - 4, at + 0.36 * kTickSize}, tick.label, {kTickSize, kSoftInk, Anchor::kEnd});
  }
  canvas.path(ticks, false, line_paint(kFrame, 1));
  canvas.rectangle(area, 0, line_paint(kFrame, 1));
  draw_x_labels(canvas, view);
  if (!view.panel->x.label.empty()) {
    canvas.text({area.x + area.width / 2, area.bottom() + bottom_margin(view) - 3}, view.panel->x.label,
                {kLabelSize, kInk, Anchor::kMiddle});
  }
  if (!view.panel->y.label.empty()) {
    canvas.text({area.x - left_margin(view) + kLabelSize, area.y + area.height / 2}, view.panel->y.label,
                {kLabelSize, kInk, Anchor::kMiddle, false, true});
  }
}

}  // namespace covnoise::plot
