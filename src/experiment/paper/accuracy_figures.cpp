#include "experiment/paper/accuracy_figures.h"

#include "experiment/paper/accuracies.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace covnoise::paper {
namespace {

/// The limits of an axis: what must be seen, and of the intervals as much as leaves that readable.
class Limits {
 public:
  void show(double value) {
    if (!std::isfinite(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  void reach(double value) {
    if (std::isfinite(value)) ends_.push_back(value);
  }
  void apply(plot::Axis& axis) const {
    if (!(low_ <= high_)) return;
    const double most = std::max(0.6 * (high_ - low_), 0.05);
    double low = low_, high = high_;
    for (const double end : ends_) {
      low = std::min(low, std::max(end, low_ - most));
      high = std::max(high, std::min(end, high_ + most));
    }
    const double margin = 0.05 * (high - low) + 0.01;
    axis.min = low - margin;
    axis.max = high + margin;
  }

 private:
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
  std::vector<double> ends_;
};

constexpr plot::Style style_of(int color, plot::Marker marker, double size, bool hollow = false) {
  plot::Style style;
  style.color = color;
  style.marker = marker;
  style.size = size;
  style.hollow = hollow;
  return style;
}

constexpr plot::Style kHere = style_of(0, plot::Marker::kCircle, 3.6),
                      kOneSeed = style_of(0, plot::Marker::kCircle, 3.6, true),
                      kPaper = style_of(1, plot::Marker::kCross, 4), kPooled = style_of(2, plot::Marker::kDiamond, 5);

/// Series that have points: the others would stand in the legend for nothing.
template <class Series>
void add(plot::Panel& panel, const Series& series) {
  const auto& values = series.y;
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) {
    panel.layers.emplace_back(series);
  }
}

plot::Panel accuracy_panel(const Context& context, const Row& row) {
  plot::Panel panel;
  panel.title = row.network;
  panel.y.label = "test accuracy [%]";
  plot::Points several{"here: mean and 95 % interval", {}, {}, {}, kHere}, one{"here: one seed", {}, {}, {}, kOneSeed},
      paper{"paper", {}, {}, {}, kPaper};
  Limits limits;
  for (const auto& regime : context.item.regimes_of(row)) {
    const auto x = static_cast<double>(panel.x.categories.size());
    const auto accuracies = accuracies_of(find_cell(context, row, regime));
    const double mean = 100 * accuracies.test.mean, half = 100 * half_width(accuracies.test);
    panel.x.categories.push_back(fmt::format("{} ({})", regime, accuracies.test.count));
    auto& series = accuracies.test.count > 1 ? several : one;
    series.x.push_back(row.numbers.empty() ? x : x - 0.1);
    series.y.push_back(mean);
    series.error.push_back(half);
    paper.x.push_back(x + 0.1);
    paper.y.push_back(row.number(regime));
    for (const double test : accuracies.tests) limits.show(100 * test);
    limits.show(row.number(regime));
    limits.reach(mean - half);
    limits.reach(mean + half);
  }
  limits.apply(panel.y);
  for (const auto* series : {&several, &one, &paper}) add(panel, *series);
  return panel;
}

void push(plot::Intervals& intervals, const Estimate& estimate, double y) {
  intervals.x.push_back(estimate.value);
  intervals.y.push_back(y);
  intervals.low.push_back(estimate.low());
  intervals.high.push_back(estimate.high());
}

/// A line for each row whose difference has been measured.
plot::Panel forest_panel(const ComparedRows& compared) {
  plot::Panel panel;
  panel.title = compared.name();
  panel.x.label = "difference of test accuracy [points]";
  plot::Intervals several{"here: difference and 95 % interval", {}, {}, {}, {}, kHere},
      one{"here: a regime has one seed", {}, {}, {}, {}, kOneSeed},
      pooled{"here: pooled over rows", {}, {}, {}, {}, kPooled};
  plot::Points paper{"paper", {}, {}, {}, kPaper};
  Limits limits;
  limits.show(0);
  for (const auto& row : compared.rows) {
    if (!row.there()) continue;
    const auto y = static_cast<double>(panel.y.categories.size());
    panel.y.categories.push_back(fmt::format("{} ({})", row.row.network, row.seeds_text()));
    push(row.difference.has_interval() ? several : one, row.difference, y);
    paper.x.push_back(row.paper);
    paper.y.push_back(y + 0.2);  // beside the estimate, where both agree
    for (const double value : {row.difference.value, row.paper}) limits.show(value);
    for (const double end : {row.difference.low(), row.difference.high()}) limits.reach(end);
  }
  plot::Style zero, separator;
  zero.color = separator.color = plot::kGray;
  zero.width = separator.width = 1;
  zero.dash = plot::Dash::kDashed;
  panel.layers = {plot::Rule{"", 0.0, {}, zero}};
  if (compared.pooled.rows > 1) {
    const auto y = static_cast<double>(panel.y.categories.size());
    panel.y.categories.push_back(fmt::format("pooled ({} rows)", compared.pooled.rows));
    push(pooled, compared.pooled.mean, y);
    limits.show(compared.pooled.mean.value);
    panel.layers.emplace_back(plot::Rule{"", {}, y - 0.5, separator});
  }
  limits.apply(panel.x);
  for (const auto* series : {&several, &one, &pooled}) add(panel, *series);
  add(panel, paper);
  panel.height = 24 * static_cast<double>(std::max<std::size_t>(panel.y.categories.size(), 1) + 1);
  return panel;
}

}  // namespace

plot::Figure accuracy_figure(const Context& context) {
  plot::Figure figure;
  figure.title = context.item.title;
  figure.subtitle =
      "Last epoch; number of seeds in brackets. A single seed has no interval. An interval that leaves its panel ends "
      "in "
      "an arrow. The paper gives no intervals.";
  figure.columns = 2;
  figure.panel_width = 105 * static_cast<double>(context.item.regimes.size());  // the names of regimes are long
  figure.panel_height = 200;
  figure.shared_legend = true;
  for (const auto& row : context.item.rows) figure.panels.push_back(accuracy_panel(context, row));
  return figure;
}

plot::Figure forest_figure(const Context& context, const std::vector<ComparedRows>& comparisons) {
  plot::Figure figure;
  figure.title = context.item.title + ", differences";
  figure.subtitle =
      "Welch's 95 % confidence intervals; numbers of seeds of both regimes in brackets. An interval that leaves its "
      "panel ends in an arrow.";
  figure.columns = 2;
  figure.panel_width = 330;
  figure.shared_legend = true;
  bool pooled = false;
  for (const auto& compared : comparisons) {
    if (!compared.comparison.drawn) continue;
    auto panel = forest_panel(compared);
    if (panel.y.categories.empty()) continue;  // nothing measured yet
    pooled = pooled || compared.pooled.rows > 1;
    figure.panels.push_back(std::move(panel));
  }
  if (pooled) figure.subtitle += " The pooled difference is the mean of a random-effects model.";
  if (figure.panels.empty()) figure.panels.push_back(forest_panel(comparisons.front()));
  return figure;
}

}  // namespace covnoise::paper
