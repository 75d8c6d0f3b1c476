#include "covnoise/analysis/internal/study_json.h"
#include "covnoise/analysis/variance.h"
#include "covnoise/plot/internal/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

using plot::Figure;
using plot::kColors;
using plot::kGray;
using plot::Panel;
using plot::Points;
using plot::Rule;
using plot::Scale;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNamedLayers = 12;

using Quantity = Measured LayerVariance::*;

/// One point per layer, the regimes side by side.
Points points_of(const VarianceStudy& study, std::size_t regime, Quantity quantity) {
  Points points;
  points.name = study.regimes[regime].regime;
  points.style.color = static_cast<int>(regime) % kColors;
  points.style.hollow = regime >= kColors;
  const double count = static_cast<double>(study.regimes.size());
  const auto& layers = study.regimes[regime].layers;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {  // without "all"
    points.x.push_back(static_cast<double>(i) + 0.7 * ((static_cast<double>(regime) + 0.5) / count - 0.5));
    points.y.push_back((layers[i].*quantity).value);
    points.error.push_back((layers[i].*quantity).error);
  }
  return points;
}

Panel layer_panel(const VarianceStudy& study, const std::string& title, const std::string& label, Quantity quantity) {
  Panel panel;
  panel.title = title;
  panel.y = {label, Scale::kLog};
  const auto& layers = study.regimes.front().layers;
  panel.x.label = "layer, from input to output";
  if (layers.size() - 1 <= kMostNamedLayers) {
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) panel.x.categories.push_back(layers[i].layer);
  }
  for (std::size_t r = 0; r < study.regimes.size(); ++r) panel.layers.emplace_back(points_of(study, r, quantity));
  return panel;
}

Figure variance_figure(const VarianceStudy& study) {
  const auto& o = study.options;
  Figure figure;
  figure.title = fmt::format("Gradient variance of {} on {} after {} steps", study.model, study.data, study.step);
  figure.subtitle = fmt::format(
      "Small batch {}, large batch {}; {} large batches, and small batches of as many examples. Error bars are "
      "standard errors. Noise that replaces what the large batch lacks brings every layer back to 1.",
      o.small_batch, o.large_batch, o.samples);
  figure.columns = 1;
  figure.panel_width = 640;
  figure.panel_height = 260;
  figure.shared_legend = true;
  Panel ratios = layer_panel(study, "Ratio to small batch", "variance / variance of sb", &LayerVariance::over_sb);
  ratios.layers.insert(ratios.layers.begin(), Rule{"", {}, 1.0, {kGray}});
  const double missing = static_cast<double>(o.small_batch) / static_cast<double>(o.large_batch);
  ratios.layers.insert(ratios.layers.begin(), Rule{"", {}, missing, {kGray}});
  figure.panels = {layer_panel(study, "Mean over the parameters of a layer", "variance of the update direction",
                               &LayerVariance::variance),
                   ratios};
  return figure;
}

CsvTable variance_csv(const VarianceStudy& study) {
  CsvTable table({"regime", "batch", "layer", "parameters", "variance", "variance_error", "over_sb", "over_sb_error",
                  "covariance", "covariance_error", "over_actual", "over_actual_error"});
  for (const auto& regime : study.regimes) {
    for (const auto& l : regime.layers) {
      table.add(regime.regime, regime.batch, l.layer, l.parameters, l.variance.value, l.variance.error, l.over_sb.value,
                l.over_sb.error, l.covariance.value, l.covariance.error, l.over_actual.value, l.over_actual.error);
    }
  }
  return table;
}

/// Smallest and largest of a quantity over the layers.
std::string layer_range(const RegimeVariance& regime, Quantity quantity) {
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = 0; i + 1 < regime.layers.size(); ++i) {
    low = std::min(low, (regime.layers[i].*quantity).value);
    high = std::max(high, (regime.layers[i].*quantity).value);
  }
  return low > high ? "" : fmt::format("{:.3g} to {:.3g}", low, high);
}

std::string with_error(const Measured& m) {
  return std::isnan(m.value) ? "-" : fmt::format("{:.3f} +- {:.3f}", m.value, m.error);
}

}  // namespace

void to_json(Json& json, const VarianceStudy& study) {
  const auto& o = study.options;
  json = {{"model", study.model},         {"data", study.data},   {"step", study.step}, {"small_batch", o.small_batch},
          {"large_batch", o.large_batch}, {"samples", o.samples}, {"seed", o.seed},     {"regimes", Json::array()}};
  for (const auto& regime : study.regimes) {
    Json layers = Json::array();
    for (const auto& l : regime.layers) {
      layers.push_back({{"layer", l.layer},
                        {"parameters", l.parameters},
                        {"variance", l.variance},
                        {"over_sb", l.over_sb},
                        {"covariance", l.covariance},
                        {"over_actual", l.over_actual}});
    }
    json["regimes"].push_back({{"regime", regime.regime}, {"batch", regime.batch}, {"layers", std::move(layers)}});
  }
}

void from_json(const Json& json, VarianceStudy& study) {
  study = {};
  json.at("model").get_to(study.model);
  json.at("data").get_to(study.data);
  json.at("step").get_to(study.step);
  json.at("small_batch").get_to(study.options.small_batch);
  json.at("large_batch").get_to(study.options.large_batch);
  json.at("samples").get_to(study.options.samples);
  json.at("seed").get_to(study.options.seed);
  for (const auto& regime : json.at("regimes")) {
    auto& read = study.regimes.emplace_back();
    regime.at("regime").get_to(read.regime);
    regime.at("batch").get_to(read.batch);
    for (const auto& layer : regime.at("layers")) {
      auto& l = read.layers.emplace_back();
      layer.at("layer").get_to(l.layer);
      layer.at("parameters").get_to(l.parameters);
      layer.at("variance").get_to(l.variance);
      layer.at("over_sb").get_to(l.over_sb);
      layer.at("covariance").get_to(l.covariance);
      layer.at("over_actual").get_to(l.over_actual);
    }
  }
}

std::string variance_table(const VarianceStudy& study) {
  std::string text = fmt::format(
      "{} on {} after {} steps, batches {} and {}, {} large ones for each "
      "regime\n\n{:<18}{:>18}{:>20}{:>20}{:>20}{:>20}\n",
      study.model, study.data, study.step, study.options.small_batch, study.options.large_batch, study.options.samples,
      "regime", "variance, mean", "over sb", "layers", "estimate / actual", "layers");
  for (const auto& regime : study.regimes) {
    const auto& all = regime.layers.back();
    const bool estimates = !std::isnan(all.covariance.value);
    text += fmt::format("{:<18}{:>18.4g}{:>20}{:>20}{:>20}{:>20}\n", regime.regime, all.variance.value,
                        with_error(all.over_sb), layer_range(regime, &LayerVariance::over_sb),
                        with_error(all.over_actual), estimates ? layer_range(regime, &LayerVariance::over_actual) : "");
  }
  return text;
}

std::vector<std::filesystem::path> save_study(const VarianceStudy& study, const std::filesystem::path& folder,
                                              plot::Formats formats) {
  StudyFiles files(folder, formats);
  files.add("variance", variance_csv(study));
  files.add("variance", Json(study));
  files.add("variance", variance_figure(study));
  return files.paths();
}

}  // namespace covnoise
