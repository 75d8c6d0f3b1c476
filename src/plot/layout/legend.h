#pragma once
#include "plot/canvas/canvas.h"

#include <vector>

namespace covnoise::plot {

/// The sample beside one name: any of a line, a band, a marker and a box.
struct LegendEntry {
  std::string name;
  Style style;
  bool line = false, band = false, marker = false, box = false;
};

/// One entry per name of the panels' layers.
std::vector<LegendEntry> legend_entries(const std::vector<Panel>& panels);

/// Height of the legend when its entries fill rows of at most `width` pixels.
double legend_height(const std::vector<LegendEntry>& entries, double width);
void draw_legend(Canvas& canvas, const std::vector<LegendEntry>& entries, Point top_left, double width);

}  // namespace covnoise::plot
