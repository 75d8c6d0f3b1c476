#include "plot/layout/legend.h"

#include "plot/canvas/text_width.h"
#include "plot/markers.h"
#include "plot/theme.h"

#include <algorithm>

namespace covnoise::plot {
namespace {

constexpr double kSample = 24, kGap = 6, kBetween = 16, kRow = 18;

class EntryCollector {
 public:
  explicit EntryCollector(std::vector<LegendEntry>& entries) : entries_(entries) {}

  void operator()(const Line& line) {
    LegendEntry& entry = at(line.name, line.style);
    entry.line = true;
    entry.band = entry.band || !line.low.empty();
    entry.style.dash = dash_of(line.style);
    entry.style.width = line.style.width;
    if (line.style.marker != Marker::kAuto && line.style.marker != Marker::kNone) entry.marker = true;
  }
  void operator()(const Points& points) { add_marker(points.name, points.style); }
  void operator()(const Intervals& intervals) { add_marker(intervals.name, intervals.style); }
  void operator()(const Bars& bars) { at(bars.name, bars.style).box = true; }
  void operator()(const Ellipse& ellipse) { at(ellipse.name, ellipse.style).line = true; }
  void operator()(const Rule& rule) { at(rule.name, rule.style).line = true; }
  void operator()(const Contours&) {}
  void operator()(const Note&) {}

 private:
  void add_marker(const std::string& name, const Style& style) {
    LegendEntry& entry = at(name, style);
    entry.marker = true;
    entry.style.marker = marker_of(style);
  }
  LegendEntry& at(const std::string& name, const Style& style) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.name == name; });
    if (found != entries_.end()) return *found;
    entries_.push_back({name, style});
    entries_.back().style.opacity = std::max(0.8, style.opacity);
    entries_.back().style.size = std::max(3.0, style.size);
    return entries_.back();
  }
  std::vector<LegendEntry>& entries_;
};

/// Calls place(entry, x, row) for each entry; returns the number of rows.
template <class Place>
int arrange(const std::vector<LegendEntry>& entries, double width, const Place& place) {
  double x = 0;
  int row = 0;
  for (const auto& entry : entries) {
    const double needed = kSample + kGap + text_width(entry.name, kLegendSize);
    if (x > 0 && x + needed > width) {
      x = 0;
      ++row;
    }
    place(entry, x, row);
    x += needed + kBetween;
  }
  return entries.empty() ? 0 : row + 1;
}

void draw_sample(Canvas& canvas, const LegendEntry& entry, Point left) {
  const Color color = color_of(entry.style);
  if (entry.box) canvas.rectangle({left.x + 6, left.y - 6, 12, 12}, 0, {color.faded(0.9), std::nullopt});
  if (entry.band) canvas.rectangle({left.x, left.y - 5, kSample, 10}, 0, {color.faded(0.18), std::nullopt});
  if (entry.line) {
    canvas.path({{left, {left.x + kSample, left.y}}}, false,
                {std::nullopt, Stroke{color, entry.style.width, dash_of(entry.style)}});
  }
  if (entry.marker) {
    Style style = entry.style;
    style.marker = marker_of(style);
    style.opacity = 1;
    draw_markers(canvas, {{left.x + kSample / 2, left.y}}, style);
  }
}

}  // namespace

std::vector<LegendEntry> legend_entries(const std::vector<Panel>& panels) {
  std::vector<LegendEntry> entries;
  EntryCollector collect(entries);
  for (const auto& panel : panels) {
    for (const auto& layer : panel.layers) std::visit(collect, layer);
  }
  entries.erase(std::remove_if(entries.begin(), entries.end(), [](const auto& e) { return e.name.empty(); }),
                entries.end());
  return entries;
}

double legend_height(const std::vector<LegendEntry>& entries, double width) {
  return kRow * arrange(entries, width, [](const LegendEntry&, double, int) {});
}

void draw_legend(Canvas& canvas, const std::vector<LegendEntry>& entries, Point top_left, double width) {
  arrange(entries, width, [&](const LegendEntry& entry, double x, int row) {
    const Point left{top_left.x + x, top_left.y + kRow * (row + 0.5)};
    draw_sample(canvas, entry, left);
    canvas.text({left.x + kSample + kGap, left.y + 0.36 * kLegendSize}, entry.name, {kLegendSize, kInk});
  });
}

}  // namespace covnoise::plot
