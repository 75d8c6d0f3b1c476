#include "covnoise/core/internal/statistics.h"
#include "covnoise/plot/internal/study_files.h"
#include "experiment/paper/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace covnoise::paper {
namespace {

constexpr std::int64_t kPoints = 50;  // per curve

/// Training error over updates: each point is the mean over the logged steps in its part of the curve, NaN without any.
std::vector<double> errors_of_steps(const Trained& run, std::int64_t updates) {
  std::vector<double> sums(kPoints), counts(kPoints);
  for (const auto& record : run.stored->metrics()) {
    if (record.value("kind", "") != "step") continue;
    const auto step = record.value("step", std::int64_t{0});
    const auto accuracy = record.find("train_accuracy");
    if (step < 1 || step > updates || accuracy == record.end() || !accuracy->is_number()) continue;
    const auto bin = static_cast<std::size_t>((step - 1) * kPoints / updates);
    sums[bin] += 1 - accuracy->get<double>();
    ++counts[bin];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : NAN;
  return sums;
}

/// The curve kept with a record; empty if there is none of this length.
std::vector<double> kept_errors(const Trained& run, std::int64_t updates) {
  const auto json = run.stored->document(kTrainingError);
  if (json.value("updates", Json()) != updates) return {};
  std::vector<double> errors;
  for (const auto& error : json.value("errors", Json::array())) {
    errors.push_back(error.is_number() ? error.get<double>() : NAN);  // null stands for NaN
  }
  return errors.size() == static_cast<std::size_t>(kPoints) ? errors : std::vector<double>{};
}

/// The curve of a run, from its steps or from its record; empty if neither is available.
std::vector<double> error_curve(const Trained& run, std::int64_t updates) {
  if (!run.there()) return {};
  if (run.records_only) return kept_errors(run, updates);
  auto errors = errors_of_steps(run, updates);
  keep_document(run, kTrainingError, {{"updates", updates}, {"errors", errors}});
  return errors;
}

/// The curves of one regime, of all seeds that have started.
struct Curve {
  std::string regime;
  std::vector<std::vector<double>> errors;  ///< of each seed
  std::vector<MeanStd> points;              ///< over the seeds

  std::size_t seeds() const { return errors.size(); }

  /// Over the seeds: the mean of each seed's points in [begin, end), as far as it has them.
  MeanStd around(std::size_t begin, std::size_t end) const {
    std::vector<double> means;
    for (const auto& error : errors) {
      std::vector<double> values;
      std::copy_if(error.begin() + static_cast<std::ptrdiff_t>(begin), error.begin() + static_cast<std::ptrdiff_t>(end),
                   std::back_inserter(values), [](double value) { return std::isfinite(value); });
      if (!values.empty()) means.push_back(mean_std_of(values).mean);
    }
    return mean_std_of(means);
  }
};

Curve curve_of(const Cell& cell, std::int64_t updates) {
  Curve curve{cell.regime, {}, {}};
  for (const auto& run : cell.runs) {
    if (auto errors = error_curve(run, updates); !errors.empty()) curve.errors.push_back(std::move(errors));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(kPoints); ++i) curve.points.push_back(curve.around(i, i + 1));
  return curve;
}

/// The update in the middle of a point's interval.
double middle(std::size_t point, std::int64_t updates) {
  return (static_cast<double>(point) + 0.5) * static_cast<double>(updates) / static_cast<double>(kPoints);
}

/// The length of the curves in updates. A scale shortens the training twice: fewer epochs, and fewer steps per epoch.
std::int64_t length(const Context& context) {
  const double scale = context.options.scale;
  return std::max<std::int64_t>(8, std::llround(static_cast<double>(context.item.effort.updates) * scale * scale));
}

bool several_seeds(const std::vector<Curve>& curves) {
  return std::any_of(curves.begin(), curves.end(), [](const Curve& curve) { return curve.seeds() > 1; });
}

plot::Figure curve_figure(const Context& context, const std::vector<Curve>& curves) {
  plot::Figure figure;
  figure.title = fmt::format("{}, {}", context.item.title, context.item.rows.front().network);
  figure.subtitle = fmt::format(
      "One constant learning rate for all regimes, noise never stopped. Error on the training batches; each point is "
      "the mean over {} updates.{}",
      std::max<std::int64_t>(1, length(context) / kPoints),
      several_seeds(curves) ? " Bands: standard deviation over seeds." : "");
  figure.panel_width = 640;
  figure.panel_height = 340;
  plot::Panel panel;
  panel.x.label = "parameter updates";
  panel.y.label = "training error [%]";
  for (const auto& curve : curves) {
    plot::Line line;
    line.name = curve.regime;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const auto& point = curve.points[i];
      if (point.count == 0) continue;
      line.x.push_back(middle(i, length(context)));
      line.y.push_back(100 * point.mean);
      if (curve.seeds() < 2) continue;
      line.low.push_back(100 * (point.mean - point.deviation));
      line.high.push_back(100 * (point.mean + point.deviation));
    }
    panel.layers.emplace_back(line);
  }
  figure.panels = {panel};
  return figure;
}

/// Errors at some updates: the mean over the two points of the curve before each.
Table error_table(const Context& context, const std::vector<Curve>& curves) {
  Table table{"", {"regime", "seeds"}, {}};
  const std::vector<double> parts = {0.125, 0.25, 0.5, 1};
  for (const double part : parts) {
    table.header.push_back(fmt::format("error at {:.0f} [%]", part * static_cast<double>(length(context))));
  }
  table.header.emplace_back("remarks");
  for (std::size_t c = 0; c < curves.size(); ++c) {
    std::vector<std::string> cells = {curves[c].regime, fmt::to_string(curves[c].seeds())};
    for (const double part : parts) {
      const auto end = static_cast<std::size_t>(std::lround(part * kPoints));
      cells.push_back(percent_interval_text(curves[c].around(end - std::min<std::size_t>(2, end), end)));
    }
    cells.push_back(context.cells[c].remark());
    table.rows.push_back(cells);
  }
  return table;
}

}  // namespace

Result make_fig3(const Context& context) {
  const std::int64_t updates = length(context);
  std::vector<Curve> curves;
  for (const auto& cell : context.cells) curves.push_back(curve_of(cell, updates));
  Result result;
  result.tables = {error_table(context, curves)};
  result.notes = {fmt::format(
      "The learning rate is {:g} for all regimes, momentum {:g}; the paper does not state its own, and shows a chart "
      "without numbers.",
      context.cells.front().runs.front().spec.config.train.lr,
      context.cells.front().runs.front().spec.config.train.momentum)};
  if (several_seeds(curves))
    result.notes.emplace_back("+- is half the 95 % confidence interval of the mean over the seeds (Student's t).");
  result.nothing = std::all_of(curves.begin(), curves.end(), [](const Curve& curve) { return curve.seeds() == 0; });
  if (result.nothing) return result;
  CsvTable csv({"regime", "update", "error", "deviation", "seeds"});
  for (const auto& curve : curves) {
    Json points = Json::array();
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const auto& point = curve.points[i];
      if (point.count == 0) continue;
      csv.add(curve.regime, middle(i, updates), point.mean, point.deviation, point.count);
      points.push_back({middle(i, updates), point.mean});
    }
    result.numbers["curves"].push_back({{"regime", curve.regime}, {"seeds", curve.seeds()}, {"error", points}});
  }
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add("fig3", csv);
  files.add("fig3", curve_figure(context, curves));
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
