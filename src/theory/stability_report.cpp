#include "covnoise/plot/internal/study_files.h"
#include "covnoise/theory/stability_study.h"
#include "theory/figure_tools.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise::theory {
namespace {

using plot::Dash;
using plot::Figure;
using plot::Line;
using plot::Panel;
using plot::Points;
using plot::Scale;
using plot::Style;
using Json = nlohmann::ordered_json;

std::string label(const std::string& noise) { return noise == "identity" ? "I" : noise == "full" ? "√A" : "√diag A"; }

Style noise_style(const std::string& noise, Dash dash = Dash::kAuto, double width = 1.9) {
  const Dash own = noise == "identity" ? Dash::kDashDotted : noise == "full" ? Dash::kSolid : Dash::kDashed;
  Style style;
  style.color = noise == "identity" ? 2 : noise == "full" ? 1 : 0;
  style.dash = dash == Dash::kAuto ? own : dash;
  style.width = width;
  return style;
}

Panel time_panel(const std::string& title, const std::string& y) { return {title, {"time t", Scale::kLog}, {y}, {}}; }

Panel worst_panel(const StabilityStudy& study) {
  Panel panel =
      time_panel(fmt::format("All {} swaps: the worst (thick), the median (dotted)", study.swapped.size(0)), "H(t)");
  for (const auto& curve : study.curves) {
    panel.layers.emplace_back(Line{label(curve.noise), study.times, curve.worst, {}, {}, noise_style(curve.noise)});
    panel.layers.emplace_back(
        Line{"", study.times, curve.median, {}, {}, noise_style(curve.noise, Dash::kDotted, 1.4)});
  }
  panel.y.min = 0;
  return panel;
}

Panel swap_panel(const StabilityStudy& study) {
  Panel panel = time_panel("One swap: exact (line), simulated (marks)", "H(t)");
  for (const auto& curve : study.curves) {
    panel.layers.emplace_back(Line{label(curve.noise), study.times, curve.one, {}, {}, noise_style(curve.noise)});
    panel.layers.emplace_back(
        Points{label(curve.noise), study.simulated_times, curve.simulated, {}, noise_style(curve.noise)});
  }
  panel.y.min = 0;
  return panel;
}

Panel parts_panel(const StabilityStudy& study) {
  Panel panel = time_panel("The same swap: determinants alone (thick), means alone (dotted)", "H(t)");
  for (const auto& curve : study.curves) {
    panel.layers.emplace_back(Line{label(curve.noise), study.times, curve.shape, {}, {}, noise_style(curve.noise)});
    panel.layers.emplace_back(
        Line{"", study.times, curve.centre, {}, {}, noise_style(curve.noise, Dash::kDotted, 1.4)});
  }
  panel.y.min = 0;
  return panel;
}

Panel scaled_panel(const StabilityStudy& study) {
  Panel panel = time_panel("Weaker noise λ√A: the worst swap", "H(t)");
  for (const auto& curve : study.scaled) {
    if (curve.noise != "full") continue;
    panel.layers.emplace_back(Line{fmt::format("λ = {:g}", curve.lambda), study.times, curve.worst, {}, {}, {}});
  }
  panel.y.min = 0;
  panel.y.max = 1;
  return panel;
}

Figure stability_figure(const StabilityStudy& study) {
  Figure figure;
  figure.title = "Hellinger distance between training on S and on S with one example swapped";
  figure.subtitle = fmt::format(
      "{} examples in {} dimensions, α = {:g}. √A forgets the data as t → ∞ and I does not; as t → 0 it is the other "
      "way "
      "round. With weaker noise the distance comes close to 1, and still vanishes as t → ∞.",
      study.options.examples, study.options.dimension, study.options.alpha);
  figure.columns = 2;
  figure.panel_width = 430;
  figure.panel_height = 270;
  figure.panels = {worst_panel(study), swap_panel(study), parts_panel(study), scaled_panel(study)};
  return figure;
}

CsvTable curves_csv(const StabilityStudy& study) {
  CsvTable table(
      {"noise", "time", "worst", "median", "low_5", "high_95", "one_swap", "one_swap_shape", "one_swap_centre"});
  for (const auto& c : study.curves) {
    for (std::size_t i = 0; i < study.times.size(); ++i) {
      table.add(c.noise, study.times[i], c.worst[i], c.median[i], c.low[i], c.high[i], c.one[i], c.shape[i],
                c.centre[i]);
    }
  }
  return table;
}

CsvTable simulated_csv(const StabilityStudy& study) {
  CsvTable table({"noise", "time", "simulated"});
  for (const auto& c : study.curves) {
    for (std::size_t i = 0; i < study.simulated_times.size(); ++i)
      table.add(c.noise, study.simulated_times[i], c.simulated[i]);
  }
  return table;
}

CsvTable scaled_csv(const StabilityStudy& study) {
  CsvTable table({"noise", "lambda", "time", "worst"});
  for (const auto& c : study.scaled) {
    for (std::size_t i = 0; i < study.times.size(); ++i) table.add(c.noise, c.lambda, study.times[i], c.worst[i]);
  }
  return table;
}

/// Index of the time closest to `t`.
std::size_t nearest_time(const StabilityStudy& study, double t) {
  const auto found = std::lower_bound(study.times.begin(), study.times.end(), t * (1 - 1e-9));
  return found == study.times.end() ? study.times.size() - 1 : static_cast<std::size_t>(found - study.times.begin());
}

Json study_json(const StabilityStudy& study) {
  const auto& o = study.options;
  Json json{{"examples", o.examples},
            {"dimension", o.dimension},
            {"alpha", o.alpha},
            {"swaps", study.swapped.size(0)},
            {"simulated_swap", study.swap},
            {"dt", o.process.dt},
            {"trajectories", o.process.trajectories},
            {"seed", o.seed}};
  for (const auto& c : study.curves) {
    json["curves"].push_back({{"noise", c.noise},
                              {"worst_at_zero", c.at_zero},
                              {"worst_at_infinity", c.at_infinity},
                              {"largest", *std::max_element(c.worst.begin(), c.worst.end())}});
  }
  return json;
}

}  // namespace

std::string stability_table(const StabilityStudy& study) {
  std::string text =
      fmt::format("{} examples, {} dimensions, {} swaps, alpha {:g}; largest Hellinger distance H over the swaps\n\n",
                  study.options.examples, study.options.dimension, study.swapped.size(0), study.options.alpha);
  text += fmt::format("{:<14}{:>10}", "noise C", "t -> 0");
  const std::vector<double> shown{0.1, 1, 10, 100};
  for (const double t : shown) text += fmt::format("{:>10}", fmt::format("t = {:g}", t));
  text += fmt::format("{:>12}\n", "t -> inf");
  const auto row = [&](const std::string& name, const std::string& zero, const std::vector<double>& values,
                       const std::string& infinity) {
    text += fmt::format("{:<14}{:>10}", name, zero);
    for (const double t : shown) text += fmt::format("{:>10.4f}", values[nearest_time(study, t)]);
    text += fmt::format("{:>12}\n", infinity);
  };
  for (const auto& c : study.curves) {
    row(c.noise, fmt::format("{:.4f}", c.at_zero), c.worst, fmt::format("{:.2g}", c.at_infinity));
    for (const auto& s : study.scaled) {
      if (s.noise == c.noise && s.lambda != 1) row(fmt::format("  lambda {:g}", s.lambda), "", s.worst, "");
    }
  }
  return text;
}

std::vector<std::filesystem::path> save_study(const StabilityStudy& study, const std::filesystem::path& folder) {
  StudyFiles files(folder);
  files.add("curves", curves_csv(study));
  files.add("simulated", simulated_csv(study));
  files.add("scaled", scaled_csv(study));
  files.add("stability", study_json(study));
  files.add("stability", stability_figure(study));
  return files.paths();
}

}  // namespace covnoise::theory
