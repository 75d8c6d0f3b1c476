#include "covnoise/analysis/hessian_study.h"
#include "covnoise/analysis/internal/study_json.h"
#include "covnoise/core/internal/mean_std.h"
#include "covnoise/plot/internal/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace covnoise {
namespace {

using plot::Bars;
using plot::Figure;
using plot::kGray;
using plot::Line;
using plot::Panel;
using plot::Rule;
using plot::Scale;
using Json = nlohmann::ordered_json;

std::string network_name(const HessianResult& r) { return fmt::format("{}, {}", r.model, r.data); }

/// In the order of their first appearance.
std::vector<std::string> distinct(const HessianStudy& study,
                                  const std::function<std::string(const HessianResult&)>& name) {
  std::vector<std::string> names;
  for (const auto& result : study.results) {
    if (std::find(names.begin(), names.end(), name(result)) == names.end()) names.push_back(name(result));
  }
  return names;
}

/// Largest eigenvalues of the runs of one network and regime.
MeanStd over_seeds(const HessianStudy& study, const std::string& network, const std::string& regime) {
  std::vector<double> values;
  for (const auto& r : study.results) {
    if (network_name(r) == network && r.regime == regime) values.push_back(r.eigenvalues.values.front());
  }
  return mean_std_of(values);
}

Panel bar_panel(const HessianStudy& study) {
  Panel panel;
  panel.title = "Largest eigenvalue";
  panel.y.label = "largest eigenvalue of the Hessian";
  panel.y.min = 0;
  panel.x.categories = distinct(study, network_name);
  for (const auto& regime : distinct(study, [](const auto& r) { return r.regime; })) {
    Bars bars;
    bars.name = regime;
    for (const auto& network : panel.x.categories) {
      const auto group = over_seeds(study, network, regime);
      bars.values.push_back(group.mean);
      bars.error.push_back(group.count > 0 ? group.deviation : 0);
    }
    panel.layers.emplace_back(bars);
  }
  return panel;
}

Panel convergence_panel(const HessianStudy& study) {
  Panel panel;
  panel.title = "Convergence";
  panel.x.label = "iteration";
  panel.y = {"estimated residual of the largest, relative", Scale::kLog};
  for (const auto& r : study.results) {
    Line line;
    line.name = study.results.size() <= 6 ? fmt::format("{} s{}", r.regime, r.seed) : "";
    for (std::size_t i = 0; i < r.eigenvalues.estimates.size(); ++i) {
      line.x.push_back(static_cast<double>(i + 1));
      line.y.push_back(std::max(r.eigenvalues.estimates[i], 1e-16));
    }
    panel.layers.emplace_back(line);
  }
  panel.layers.emplace_back(Rule{"", {}, study.options.lanczos.tolerance, {kGray}});
  return panel;
}

/// The weighted points, each as a Gaussian of one percent of the range.
Line density_line(const HessianResult& r) {
  constexpr int kPoints = 400;
  constexpr double kLeast = 1e-10;
  const auto [low, high] = std::minmax_element(r.spectrum.values.begin(), r.spectrum.values.end());
  const double range = *high - *low, sigma = range / 100;
  Line line;
  line.name = fmt::format("{} s{}", r.regime, r.seed);
  for (int i = 0; i <= kPoints; ++i) {
    const double x = *low - 0.05 * range + 1.1 * range * i / kPoints;
    double density = 0;
    for (std::size_t j = 0; j < r.spectrum.values.size(); ++j) {
      density += r.spectrum.weights[j] * std::exp(-0.5 * std::pow((x - r.spectrum.values[j]) / sigma, 2));
    }
    line.x.push_back(x);
    density /= sigma * std::sqrt(2 * M_PI);
    line.y.push_back(density > kLeast ? density : std::numeric_limits<double>::quiet_NaN());
  }
  return line;
}

Panel density_panel(const HessianStudy& study) {
  Panel panel;
  panel.title = "Spectral density, broadened by 1 % of its range";
  panel.x.label = "eigenvalue";
  panel.y = {"density", Scale::kLog};
  for (const auto& r : study.results) panel.layers.emplace_back(density_line(r));
  return panel;
}

bool has_density(const HessianStudy& study) { return !study.results.front().spectrum.values.empty(); }

Figure hessian_figure(const HessianStudy& study) {
  Figure figure;
  const auto unconverged =
      std::count_if(study.results.begin(), study.results.end(), [](const auto& r) { return !r.eigenvalues.converged; });
  figure.title = "The Hessian's largest eigenvalue, rescalings taken out";
  figure.subtitle = fmt::format(
      "Loss over {} {} examples; any batch normalisation folded into the weights, temperature calibrated on the test "
      "set. Error bars: standard deviation over seeds. {}",
      study.results.front().examples, study.options.split,
      unconverged == 0 ? fmt::format("All residuals are below {:g}.", study.options.lanczos.tolerance)
                       : fmt::format("NOT CONVERGED: {} of {}.", unconverged, study.results.size()));
  figure.columns = 2;
  figure.panel_width = 400;
  figure.panel_height = 280;
  figure.panels = {bar_panel(study), convergence_panel(study)};
  if (has_density(study)) figure.panels.push_back(density_panel(study));
  return figure;
}

CsvTable hessian_csv(const HessianStudy& study) {
  CsvTable table({"run", "model", "data", "regime", "seed", "step", "examples", "temperature", "rank", "eigenvalue",
                  "residual", "converged", "iterations"});
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < r.eigenvalues.values.size(); ++i) {
      table.add(r.run, r.model, r.data, r.regime, r.seed, r.step, r.examples, r.temperature, i + 1,
                r.eigenvalues.values[i], r.eigenvalues.residuals[i], r.eigenvalues.converged,
                r.eigenvalues.history.size());
    }
  }
  return table;
}

CsvTable spectrum_csv(const HessianStudy& study) {
  CsvTable table({"run", "eigenvalue", "weight"});
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < r.spectrum.values.size(); ++i)
      table.add(r.run, r.spectrum.values[i], r.spectrum.weights[i]);
  }
  return table;
}

Json hessian_json(const HessianStudy& study) {
  Json json{{"split", study.options.split}, {"tolerance", study.options.lanczos.tolerance}};
  for (const auto& r : study.results) {
    json["runs"].push_back({{"run", r.run},
                            {"regime", r.regime},
                            {"seed", r.seed},
                            {"step", r.step},
                            {"examples", r.examples},
                            {"parameters", r.parameters},
                            {"temperature", r.temperature},
                            {"eigenvalues", r.eigenvalues.values},
                            {"residuals", r.eigenvalues.residuals},
                            {"converged", r.eigenvalues.converged},
                            {"iterations", r.eigenvalues.history.size()}});
  }
  return json;
}

}  // namespace

std::string hessian_table(const HessianStudy& study) {
  std::string text = fmt::format("{:<34}{:>12}{:>14}{:>12}{:>12}{:>10}\n", "run", "temperature", "eigenvalue",
                                 "residual", "iterations", "");
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < r.eigenvalues.values.size(); ++i) {
      text += fmt::format("{:<34}{:>12}{:>14.6g}{:>12.1e}{:>12}{:>16}\n", i == 0 ? r.run : "",
                          i == 0 ? fmt::format("{:.4f}", r.temperature) : "", r.eigenvalues.values[i],
                          r.eigenvalues.residuals[i], i == 0 ? fmt::to_string(r.eigenvalues.history.size()) : "",
                          r.eigenvalues.converged ? "" : "NOT CONVERGED");
    }
  }
  for (const auto& network : distinct(study, network_name)) {
    for (const auto& regime : distinct(study, [](const auto& r) { return r.regime; })) {
      const auto group = over_seeds(study, network, regime);
      if (group.count < 2) continue;
      text += fmt::format("{}, {}: {:.4g} +- {:.2g} (standard deviation over {} runs)\n", network, regime, group.mean,
                          group.deviation, group.count);
    }
  }
  return text;
}

std::vector<std::filesystem::path> save_study(const HessianStudy& study, const std::filesystem::path& folder) {
  StudyFiles files(folder);
  files.add("hessian", hessian_csv(study));
  files.add("hessian", hessian_json(study));
  if (has_density(study)) files.add("spectrum", spectrum_csv(study));
  files.add("hessian", hessian_figure(study));
  return files.paths();
}

}  // namespace covnoise
