#include "covnoise/theory/internal/quadratic_figures.h"

#include "theory/figure_tools.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::theory {
namespace {

using plot::Bars;
using plot::Dash;
using plot::Ellipse;
using plot::Figure;
using plot::Line;
using plot::Marker;
using plot::Panel;
using plot::Points;
using plot::Rule;
using plot::Scale;
using plot::Style;

int noise_color(const std::string& name) {
  if (name == "none") return 6;
  if (name == "isotropic") return 2;
  if (name == "full") return 1;
  if (name == "diagonal") return 0;
  return 3;
}

/// A dash pattern for each kind, so that overlapping lines can be told apart without colour.
Dash noise_dash(const std::string& name) {
  return name == "diagonal" ? Dash::kDashed : name == "isotropic" ? Dash::kDashDotted : Dash::kSolid;
}

Style colored(const std::string& name, Dash dash = Dash::kAuto, double width = 1.8) {
  Style style;
  style.color = noise_color(name);
  style.dash = dash == Dash::kAuto ? noise_dash(name) : dash;
  style.width = width;
  return style;
}

std::vector<double> as_doubles(const std::vector<std::int64_t>& values) { return {values.begin(), values.end()}; }

Panel loss_panel(const QuadraticStudy& study) {
  Panel panel{"Mean loss: exact (lines), simulated (marks), the theorem's bound (dotted)",
              {"step k", Scale::kLog},
              {"E L(θₖ)", Scale::kLog},
              {}};
  double lowest = 1e300;
  for (const auto& result : study.results) {
    const auto steps = as_doubles(result.steps);
    panel.layers.emplace_back(Line{noise_label(result.name), steps, result.exact, {}, {}, colored(result.name)});
    if (result.trace > 0) lowest = std::min(lowest, result.exact.back());
    if (result.bound && result.trace > 0) {
      std::vector<double> bound;
      for (const auto step : result.steps) bound.push_back((*result.bound)(step));
      panel.layers.emplace_back(Line{"", steps, bound, {}, {}, colored(result.name, Dash::kDotted, 1.4)});
    }
    panel.layers.emplace_back(Points{noise_label(result.name), as_doubles(result.simulated.steps),
                                     result.simulated.mean, result.simulated.standard_error, colored(result.name)});
  }
  if (lowest < 1e300) panel.y.min = lowest / 3;  // without noise the loss falls far below the others
  return panel;
}

/// Steps to reach an error: measured by the recursion, table 1 as printed, and the theorem.
Panel steps_panel(const QuadraticStudy& study) {
  Panel panel{"Steps to reach an error ε", {"ε", Scale::kLog}, {"steps", Scale::kLog}, {}};
  const auto [least, most] = std::minmax_element(study.errors.begin(), study.errors.end());
  std::vector<double> errors;
  for (int i = 0; i <= 40; ++i) errors.push_back(*least * std::pow(*most / *least, i / 40.0));
  for (const std::string name : {"full", "diagonal"}) {
    const at::Tensor factor = noise_factor(name, study.quadratic);
    const double curvature = noise_curvature(study.quadratic, factor);
    const auto losses = exact_losses(study.quadratic, factor, study.steps, study.theta_0, study.options.horizon);
    const auto reached = steps_to_reach(losses, errors);
    std::vector<double> measured, printed, bound;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      measured.push_back(reached[i] ? static_cast<double>(*reached[i]) : NAN);
      printed.push_back(curvature / errors[i]);
      bound.push_back(2 * curvature / std::pow(study.quadratic.lambda_min(), 2) / errors[i]);
    }
    const std::string label = noise_label(name), norm = name == "full" ? "‖A‖²/ε" : "‖diag A‖²/ε";
    panel.layers.emplace_back(Line{label + ": needed", errors, measured, {}, {}, colored(name, Dash::kAuto, 2.2)});
    panel.layers.emplace_back(Line{"table 1, " + norm, errors, printed, {}, {}, colored(name, Dash::kDashDotted, 1.2)});
    panel.layers.emplace_back(Line{"2/λ² " + norm, errors, bound, {}, {}, colored(name, Dash::kDotted, 1.4)});
  }
  return panel;
}

Panel stationary_panel(const QuadraticStudy& study) {
  Panel panel{"Stationary loss, ratio of √A to √diag A", {"step size in units of 1/λmax"}, {"ratio"}, {}};
  panel.x.min = 0;
  panel.x.max = 2;
  const Style claim = colored("full", Dash::kDashed, 1.6), equal = colored("none", Dash::kDotted, 1.4);
  panel.layers.emplace_back(Rule{"table 1: ‖A‖²/‖diag A‖²", std::nullopt, study.ratio.frobenius, claim});
  panel.layers.emplace_back(Rule{"equal", std::nullopt, 1.0, equal});
  panel.layers.emplace_back(
      Line{"measured", study.ratio.alpha, study.ratio.stationary, {}, {}, colored("diagonal", Dash::kSolid, 2.2)});
  panel.y.min = std::min(0.9, 0.9 * study.ratio.stationary.front());
  panel.y.max = 1.15 * std::max(study.ratio.frobenius, study.ratio.stationary[149]);
  return panel;
}

Panel ratio_panel(const QuadraticStudy& study) {
  Panel panel{"Ratio of √A to √diag A: table 1 and measurement", {}, {"ratio"}, {}};
  std::vector<double> values{study.ratio.one_step}, errors{study.ratio.one_step_error};
  panel.x.categories = {"loss one step from the minimum"};
  const auto add = [&](double value, std::string name) {
    values.push_back(value);
    errors.push_back(0);
    panel.x.categories.push_back(std::move(name));
  };
  for (std::size_t i = 0; i < study.errors.size(); ++i) {
    if (study.ratio.steps[i]) add(*study.ratio.steps[i], "steps to ε = " + fmt::format("{:g}", study.errors[i]));
  }
  if (study.steps.decaying()) add(study.ratio.asymptotic, "steps as ε → 0");
  Bars bars{"measured", values, errors, {}, {}};
  for (const double value : values) bars.labels.push_back(fmt::format("{:.2f}", value));
  bars.style.color = 0;
  const std::string claim = fmt::format("table 1: ‖A‖²/‖diag A‖² = {:.2f}", study.ratio.frobenius);
  panel.layers = {Rule{claim, std::nullopt, study.ratio.frobenius, colored("full", Dash::kDashed, 1.6)},
                  Rule{"equal", std::nullopt, 1.0, colored("none", Dash::kDotted, 1.4)}, bars};
  return panel;
}

Panel path_panel(const PlaneStudy& plane, const PlaneStudy::Run& run) {
  const std::string label = noise_label(run.name);
  Panel panel{"Noise " + label, {"θ₁"}, {"θ₂"}, {}, true};
  const Quadratic& q = plane.quadratic;
  const auto loss = [&](double x, double y) {
    return q.losses(at::tensor({x, y}, at::kDouble).unsqueeze(1)).item<double>();
  };
  const double reach = 1.25 * plane.theta_0.abs().max().item<double>();
  panel.layers.emplace_back(contours_of(loss, {-0.55 * reach, reach}, {-0.9 * reach, 0.65 * reach}, 9));
  std::vector<double> x, y;
  for (std::int64_t k = 0; k < run.path.size(0); k += 10) {
    x.push_back(run.path[k][0].item<double>());
    y.push_back(run.path[k][1].item<double>());
  }
  Style path = colored("none", Dash::kSolid, 1.0), settled = colored("full", Dash::kDashed, 1.6), begin, end;
  path.marker = Marker::kCircle;
  path.size = 1.8;
  begin.color = 0;
  begin.marker = Marker::kDiamond;
  end.color = 2;
  end.marker = Marker::kSquare;
  begin.size = end.size = 5;
  panel.layers.emplace_back(Line{"every 10th step", x, y, {}, {}, path});
  panel.layers.emplace_back(Ellipse{"stationary distribution (2σ)", {0, 0}, run.covariance, 2, settled});
  panel.layers.emplace_back(Points{"start", {x.front()}, {y.front()}, {}, begin});
  panel.layers.emplace_back(Points{"end", {x.back()}, {y.back()}, {}, end});
  return panel;
}

}  // namespace

std::string noise_label(const std::string& name) {
  if (name == "none") return "no noise";
  if (name == "isotropic") return "√(Tr A/d) I";
  if (name == "full") return "√A";
  if (name == "diagonal") return "√diag A";
  return name;
}

Figure loss_figure(const QuadraticStudy& study) {
  Figure figure;
  figure.title = "Convex quadratic with noise: table 1 and measurement";
  figure.subtitle = fmt::format(
      "Dimension {}, condition {:.3g}, {} steps. By table 1 noise √A needs {:.2f} times the steps of noise √diag A",
      study.quadratic.dimension(), study.quadratic.lambda_max() / study.quadratic.lambda_min(),
      study.steps.decaying() ? "the theorem's decaying" : "constant", study.ratio.frobenius);
  const std::size_t middle = study.errors.size() / 2;
  figure.subtitle += study.ratio.steps[middle]
                         ? fmt::format("; to reach ε = {:g} it needs {:.2f} times as many.", study.errors[middle],
                                       *study.ratio.steps[middle])
                         : fmt::format("; neither stays below ε = {:g} here.", study.errors[middle]);
  figure.columns = 2;
  figure.panel_width = 430;
  figure.panel_height = 290;
  figure.panels = {loss_panel(study), steps_panel(study), ratio_panel(study), stationary_panel(study)};
  return figure;
}

Figure plane_figure(const QuadraticStudy& study) {
  Figure figure;
  figure.title = "Two dimensions, learning rate 0.1, 500 steps";
  figure.subtitle = fmt::format(
      "The same draws of ξ for both. The stationary mean loss is {:.4f} for noise √A and {:.4f} for noise √diag A.",
      study.plane.runs[0].stationary, study.plane.runs[1].stationary);
  figure.columns = 3;
  figure.panel_width = 330;
  figure.panel_height = 330;
  Panel losses{"Mean loss, exact", {"step k"}, {"E L(θₖ)", Scale::kLog}, {}};
  for (const auto& run : study.plane.runs) {
    figure.panels.push_back(path_panel(study.plane, run));
    std::vector<double> steps(run.exact.size());
    for (std::size_t k = 0; k < steps.size(); ++k) steps[k] = static_cast<double>(k);
    losses.layers.emplace_back(Line{noise_label(run.name), steps, run.exact, {}, {}, colored(run.name)});
  }
  figure.panels.push_back(losses);
  return figure;
}

}  // namespace covnoise::theory
