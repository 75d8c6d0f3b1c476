#pragma once
#include "covnoise/plot/figure.h"
#include "covnoise/theory/quadratic_study.h"

namespace covnoise::theory {

plot::Figure loss_figure(const QuadraticStudy& study);   ///< mean losses, the bound, table 1 and what was measured
plot::Figure plane_figure(const QuadraticStudy& study);  ///< the paper's figure 4

/// The legend's name for a kind of noise.
std::string noise_label(const std::string& name);

}  // namespace covnoise::theory
