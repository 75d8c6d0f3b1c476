#include "covnoise/analysis/frobenius.h"
#include "covnoise/analysis/internal/study_json.h"
#include "covnoise/plot/internal/study_files.h"

#include <fmt/format.h>

namespace covnoise {
namespace {

using plot::Dash;
using plot::Figure;
using plot::Line;
using plot::Marker;
using plot::Panel;
using plot::Scale;
using Json = nlohmann::ordered_json;
using Norm = Measured FrobeniusPoint::*;

/// A line with the standard error as its band.
Line norm_line(const FrobeniusStudy& study, const std::string& name, Norm norm, int color, Dash dash) {
  Line line;
  line.name = name;
  line.style.color = color;
  line.style.dash = dash;
  line.style.marker = study.points.size() <= 40 ? Marker::kAuto : Marker::kNone;
  for (const auto& point : study.points) {
    const Measured& m = point.*norm;
    line.x.push_back(static_cast<double>(point.step));
    line.y.push_back(m.value);
    line.low.push_back(m.value - m.error);
    line.high.push_back(m.value + m.error);
  }
  return line;
}

Figure frobenius_figure(const FrobeniusStudy& study) {
  const auto& o = study.options;
  Figure figure;
  figure.title =
      fmt::format("Frobenius norms of the Fisher matrix, {} on {}, {}", study.model, study.data, study.regime);
  figure.subtitle = fmt::format(
      "Per-example gradients with {} statistics, {} batches of {} examples. Unbiased: only pairs of different "
      "examples; "
      "the plain norms of so few examples are too large. Bands are standard errors.",
      o.training_mode ? "batch" : "running", o.batches, o.examples);
  figure.panel_width = 620;
  figure.panel_height = 330;
  Panel panel;
  panel.x.label = "training step";
  panel.y = {"Frobenius norm", Scale::kLog};
  panel.layers = {norm_line(study, "|F|, unbiased", &FrobeniusPoint::full_unbiased, 1, Dash::kSolid),
                  norm_line(study, "|F|, plain", &FrobeniusPoint::full, 1, Dash::kDotted),
                  norm_line(study, "|diag F|, unbiased", &FrobeniusPoint::diagonal_unbiased, 0, Dash::kSolid),
                  norm_line(study, "|diag F|, plain", &FrobeniusPoint::diagonal, 0, Dash::kDotted)};
  figure.panels = {panel};
  return figure;
}

CsvTable frobenius_csv(const FrobeniusStudy& study) {
  CsvTable table({"step", "full", "full_error", "diagonal", "diagonal_error", "full_unbiased", "full_unbiased_error",
                  "diagonal_unbiased", "diagonal_unbiased_error"});
  for (const auto& p : study.points) {
    table.add(p.step, p.full.value, p.full.error, p.diagonal.value, p.diagonal.error, p.full_unbiased.value,
              p.full_unbiased.error, p.diagonal_unbiased.value, p.diagonal_unbiased.error);
  }
  return table;
}

std::string norm_text(const Measured& m) { return fmt::format("{:.4g} +- {:.2g}", m.value, m.error); }

}  // namespace

void to_json(Json& json, const FrobeniusStudy& study) {
  json = {{"model", study.model},
          {"data", study.data},
          {"regime", study.regime},
          {"mode", study.options.training_mode ? "train" : "eval"},
          {"examples", study.options.examples},
          {"batches", study.options.batches},
          {"seed", study.options.seed},
          {"points", Json::array()}};
  for (const auto& p : study.points) {
    json["points"].push_back({{"step", p.step},
                              {"full", p.full},
                              {"diagonal", p.diagonal},
                              {"full_unbiased", p.full_unbiased},
                              {"diagonal_unbiased", p.diagonal_unbiased}});
  }
}

void from_json(const Json& json, FrobeniusStudy& study) {
  study = {};
  json.at("model").get_to(study.model);
  json.at("data").get_to(study.data);
  json.at("regime").get_to(study.regime);
  study.options.training_mode = json.at("mode") == "train";
  json.at("examples").get_to(study.options.examples);
  json.at("batches").get_to(study.options.batches);
  json.at("seed").get_to(study.options.seed);
  for (const auto& point : json.at("points")) {
    auto& p = study.points.emplace_back();
    point.at("step").get_to(p.step);
    point.at("full").get_to(p.full);
    point.at("diagonal").get_to(p.diagonal);
    point.at("full_unbiased").get_to(p.full_unbiased);
    point.at("diagonal_unbiased").get_to(p.diagonal_unbiased);
  }
}

std::string frobenius_table(const FrobeniusStudy& study) {
  std::string text = fmt::format("{} on {}, {}: Frobenius norms, {} batches of {} examples\n\n", study.model,
                                 study.data, study.regime, study.options.batches, study.options.examples);
  text += fmt::format("{:>8}{:>24}{:>24}{:>10}{:>24}{:>24}\n", "step", "|F| unbiased", "|diag F| unbiased", "ratio",
                      "|F| plain", "|diag F| plain");
  for (const auto& p : study.points) {
    text += fmt::format("{:>8}{:>24}{:>24}{:>10.3g}{:>24}{:>24}\n", p.step, norm_text(p.full_unbiased),
                        norm_text(p.diagonal_unbiased), p.full_unbiased.value / p.diagonal_unbiased.value,
                        norm_text(p.full), norm_text(p.diagonal));
  }
  return text;
}

std::vector<std::filesystem::path> save_study(const FrobeniusStudy& study, const std::filesystem::path& folder,
                                              plot::Formats formats) {
  StudyFiles files(folder, formats);
  files.add("frobenius", frobenius_csv(study));
  files.add("frobenius", Json(study));
  files.add("frobenius", frobenius_figure(study));
  return files.paths();
}

}  // namespace covnoise
