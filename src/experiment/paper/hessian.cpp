#include "covnoise/analysis/hessian_study.h"
#include "covnoise/analysis/internal/study_json.h"
#include "covnoise/core/internal/progress.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/plot/internal/study_files.h"
#include "experiment/paper/comparisons.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::paper {
namespace {

struct Eigenvalue {
  double value = NAN, residual = NAN, temperature = NAN;
  bool converged = false;
  std::string problem;  ///< why there is no value

  bool there() const { return problem.empty(); }
};

void to_json(Json& json, const Eigenvalue& e) {
  json = {{"value", e.value}, {"residual", e.residual}, {"temperature", e.temperature}, {"converged", e.converged}};
}

void from_json(const Json& json, Eigenvalue& e) {
  json.at("value").get_to(e.value);
  json.at("residual").get_to(e.residual);
  json.at("temperature").get_to(e.temperature);
  json.at("converged").get_to(e.converged);
}

HessianOptions hessian_options(const Context& context) {
  HessianOptions options;
  const double examples = static_cast<double>(context.item.effort.examples) * context.options.scale;
  options.examples = std::max<std::int64_t>(50, static_cast<std::int64_t>(examples));
  options.lanczos.tolerance = context.item.effort.tolerance;
  return options;
}

/// What an eigenvalue depends on besides the run.
Json question(const Trained& run, const HessianOptions& options) {
  return {{"step", run.summary.step},
          {"split", options.split},
          {"examples", options.examples},
          {"tolerance", options.lanczos.tolerance}};
}

Eigenvalue computed(const Context& context, const Trained& run, const HessianOptions& options, ProgressBar& bar) {
  auto trained = load_for_analysis(run.folder, known_data_sets({context.options.runner.data_dir}),
                                   context.options.runner.say, run.spec.config.run.device);
  require(trained.step == run.summary.step, fmt::format("{} has lost its last checkpoint", run.folder.string()));
  std::int64_t calls = 0;
  const auto result = hessian_of(trained, options, [&](const std::string& text) {
    bar.update(++calls, fmt::format("{}  {}", run.spec.name, text));
    stop_if_asked(context.options);
  });
  return {result.eigenvalues.values.front(), result.eigenvalues.residuals.front(), result.temperature,
          result.eigenvalues.converged, ""};
}

/// From the run's documents if it was computed before.
Eigenvalue eigenvalue_of(const Context& context, const Trained& run, ProgressBar& bar) {
  stop_if_asked(context.options);
  const auto options = hessian_options(context);
  if (const auto kept = kept_answer<Eigenvalue>(run, kEigenvalue, question(run, options))) return *kept;
  require(run.whole(), "only its record is available, without the network");
  Eigenvalue e = computed(context, run, options, bar);
  keep_answer(run, kEigenvalue, question(run, options), e);
  return e;
}

/// One bar of the figure.
struct Group {
  const Cell* cell;
  MeanStd spread;
  std::string remark;

  /// "4.703 +- 0.57", the half-width of the confidence interval, where there are several values.
  std::string text() const {
    if (spread.count == 0) return "-";
    return fmt::format("{:.4g}{}", spread.mean, spread.count > 1 ? fmt::format(" +- {:.2g}", half_width(spread)) : "");
  }
};

/// A problem of one run, such as a lost checkpoint, is reported and does not stop the others; an interruption does.
Eigenvalue attempted(const Context& context, const Trained& run, ProgressBar& bar) {
  try {
    return eigenvalue_of(context, run, bar);
  } catch (const Error& error) {
    if (error.exit_code() > 128) throw;
    Eigenvalue none;
    none.problem = error.what();
    return none;
  }
}

Group group_of(const Context& context, const Cell& cell, CsvTable& csv, ProgressBar& bar) {
  Group group{&cell, {}, cell.remark()};
  std::vector<double> values;
  for (const auto* run : cell.with_state(RunState::kFinished)) {
    const Eigenvalue e = attempted(context, *run, bar);
    const auto add = [&](const std::string& text) { group.remark += (group.remark.empty() ? "" : ", ") + text; };
    if (!e.there()) {
      add(fmt::format("seed {}: {}", run->spec.config.seed, e.problem));
      continue;
    }
    if (!e.converged) add(fmt::format("seed {} not converged", run->spec.config.seed));
    values.push_back(e.value);
    csv.add(cell.row.recipe, cell.regime, run->spec.config.seed, e.value, e.residual, e.converged, e.temperature);
  }
  group.spread = mean_std_of(values);
  return group;
}

/// One panel per network that has values: eigenvalues of networks may differ by orders of magnitude.
plot::Figure eigenvalue_figure(const Context& context, const std::vector<Group>& groups) {
  plot::Figure figure;
  figure.title = context.item.title;
  figure.subtitle = fmt::format(
      "Mean over seeds and its 95 % confidence interval; batch normalisation folded, temperature calibrated, "
      "{} training examples.",
      hessian_options(context).examples);
  figure.panel_width = 250;
  figure.panel_height = 190;
  for (const auto& row : context.item.rows) {
    plot::Panel panel;
    panel.title = row.network;
    panel.y.label = "largest eigenvalue";
    panel.y.min = 0;
    plot::Bars bars;
    bars.style.color = 0;
    bool any = false;
    for (const auto& group : groups) {
      if (group.cell->row.recipe != row.recipe) continue;
      panel.x.categories.push_back(group.cell->regime);
      bars.values.push_back(group.spread.mean);
      bars.error.push_back(group.spread.count > 1 ? half_width(group.spread) : 0);
      any = any || group.spread.count > 0;
    }
    panel.layers = {bars};
    if (any) figure.panels.push_back(panel);
  }
  figure.columns = static_cast<int>(std::clamp<std::size_t>(figure.panels.size(), 1, 3));
  return figure;
}

/// The large batch of a group's row; null for that group itself, and where the large batch has no values.
const Group* ground_of(const Group& group, const std::vector<Group>& groups) {
  if (group.cell->regime == kGround || group.spread.count == 0) return nullptr;
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
    return other.cell->row.recipe == group.cell->row.recipe && other.cell->regime == kGround && other.spread.count > 0;
  });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace

Result make_fig5b(const Context& context) {
  CsvTable csv({"row", "regime", "seed", "eigenvalue", "residual", "converged", "temperature"});
  std::vector<Group> groups;
  ProgressBar bar(hessian_options(context).lanczos.iterations, "Hessian", context.options.runner.progress_bar);
  for (const auto& cell : context.cells) groups.push_back(group_of(context, cell, csv, bar));
  bar.clear();
  Result result;
  Table table{
      "", {"network", "regime", "largest eigenvalue", "seeds", "difference to lb [95 % interval]", "remarks"}, {}};
  std::string last;
  for (const auto& group : groups) {
    const auto& [cell, spread, remark] = group;
    const auto* ground = ground_of(group, groups);
    const Estimate difference = ground ? welch_difference(spread, ground->spread) : Estimate{};
    table.rows.push_back({cell->row.network == last ? "" : cell->row.network, cell->regime, group.text(),
                          fmt::to_string(spread.count), ground ? estimate_text(difference) : "-", remark});
    last = cell->row.network;
    result.numbers["cells"].push_back(
        {{"row", cell->row.recipe},
         {"regime", cell->regime},
         {"mean", spread.mean},
         {"deviation", spread.deviation},
         {"seeds", spread.count},
         {"difference_to_lb", {{"value", difference.value}, {"low", difference.low()}, {"high", difference.high()}}},
         {"incomplete", remark}});
  }
  result.tables = {table};
  result.notes = {
      "+- is half the 95 % confidence interval of the mean over the available seeds (Student's t); differences have "
      "Welch's. The paper shows a chart without numbers."};
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add("fig5b", csv);
  if (const auto figure = eigenvalue_figure(context, groups); !figure.panels.empty()) files.add("fig5b", figure);
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
