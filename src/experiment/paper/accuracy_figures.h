#pragma once
#include "covnoise/plot/figure.h"
#include "experiment/paper/comparisons.h"

namespace covnoise::paper {

/// A panel per network: each regime's mean and interval beside the paper's number.
plot::Figure accuracy_figure(const Context& context);

/// A panel per comparison that is drawn and measured: a line per measured row, the paper's difference, the pooled one.
plot::Figure forest_figure(const Context& context, const std::vector<ComparedRows>& comparisons);

}  // namespace covnoise::paper
