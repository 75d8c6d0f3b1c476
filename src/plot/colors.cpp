#include "plot/colors.h"

#include <map>
#include <set>
#include <string>

namespace covnoise::plot {
namespace {

template <class Series>
using HasStyle = decltype(std::declval<Series&>().style);

/// Gives series their colours: first those that were requested, then the others, in order. When the palette is
/// exhausted, markers become hollow.
class ColorChooser {
 public:
  template <class Series, class = HasStyle<Series>>
  void reserve(const Series& series) {
    if (series.style.color >= 0) {
      taken_.insert(series.style.color);
      chosen_.emplace(series.name, series.style);
    }
  }
  void reserve(const Contours&) {}
  void reserve(const Note&) {}

  template <class Series, class = HasStyle<Series>>
  void operator()(Series& series) {
    if (series.style.color >= 0) return;
    if (series.name.empty()) {
      series.style.color = kGray;
      return;
    }
    auto found = chosen_.find(series.name);
    if (found == chosen_.end()) found = chosen_.emplace(series.name, next()).first;
    series.style.color = found->second.color;
    series.style.hollow = series.style.hollow || found->second.hollow;
  }
  void operator()(Contours&) {}
  void operator()(Note&) {}

 private:
  Style next() {
    while (index_ < kColors && taken_.count(index_) > 0) ++index_;
    Style style;
    style.color = index_ % kColors;
    style.hollow = index_ >= kColors;
    ++index_;
    return style;
  }

  std::map<std::string, Style> chosen_;  ///< by name
  std::set<int> taken_;
  int index_ = 0;
};

}  // namespace

Figure with_colors(Figure figure) {
  const auto color = [](auto first, auto last) {
    ColorChooser choose;
    for (auto panel = first; panel != last; ++panel) {
      for (const auto& layer : panel->layers) std::visit([&](const auto& l) { choose.reserve(l); }, layer);
    }
    for (auto panel = first; panel != last; ++panel) {
      for (auto& layer : panel->layers) std::visit(choose, layer);
    }
  };
  auto& panels = figure.panels;
  if (figure.shared_legend) {
    color(panels.begin(), panels.end());
  } else {
    for (auto panel = panels.begin(); panel != panels.end(); ++panel) color(panel, panel + 1);
  }
  return figure;
}

}  // namespace covnoise::plot
