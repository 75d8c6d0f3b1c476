#pragma once
#include "plot/canvas/canvas.h"

#include <vector>

namespace covnoise::plot {

/// What stands for one name: a piece of line, a band, a marker, a box, or several of them.
struct LegendEntry {
  std::string name;
  Style style;
  bool line = false, band = false, marker = false, box = false;
};

/// The named layers of some panels, each name once.
std::vector<LegendEntry> legend_entries(const std::vector<Panel>& panels);

/// Height of the legend, its entries side by side, in rows of at most `width` pixels.
double legend_height(const std::vector<LegendEntry>& entries, double width);
void draw_legend(Canvas& canvas, const std::vector<LegendEntry>& entries, Point top_left, double width);

}  // namespace covnoise::plot
