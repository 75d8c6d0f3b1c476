#include "covnoise/plot/internal/study_files.h"
#include "experiment/paper/result.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::paper {
namespace {

/// Last epochs of a cell's finished runs, in 0..1.
struct Accuracies {
  MeanStd test, train, gap;  ///< gap: train - test, in evaluation mode
};

Accuracies accuracies_of(const Cell& cell) {
  std::vector<double> gaps;
  for (const auto* run : cell.with_state(RunState::kFinished)) {
    const auto& s = run->summary;
    if (s.test_accuracy && s.train_eval_accuracy) gaps.push_back(*s.train_eval_accuracy - *s.test_accuracy);
  }
  return {over_finished(cell, &RunSummary::test_accuracy), over_finished(cell, &RunSummary::train_eval_accuracy),
          mean_std_of(gaps)};
}

Table accuracy_table(const Context& context) {
  Table table{"", {"network", "regime", "test [%]", "paper [%]", "seeds", "train [%]", "train - test", "remarks"}, {}};
  std::string last;
  for (const auto& cell : context.cells) {
    const auto a = accuracies_of(cell);
    table.rows.push_back({cell.row.network == last ? "" : cell.row.network, cell.regime, percent_text(a.test),
                          number_text(cell.row.number(cell.regime)), fmt::to_string(a.test.count),
                          percent_text(a.train), percent_text(a.gap), cell.remark()});
    last = cell.row.network;
  }
  return table;
}

const Cell& find_cell(const Context& context, const Row& row, const std::string& regime) {
  const auto found = std::find_if(context.cells.begin(), context.cells.end(), [&](const Cell& cell) {
    return cell.row.recipe == row.recipe && cell.regime == regime;
  });
  TORCH_INTERNAL_ASSERT(found != context.cells.end());
  return *found;
}

/// a - b in points, with the spread that independent runs give where both have more than one, and the paper's.
std::string difference_text(const Context& context, const Row& row, const std::string& a, const std::string& b) {
  const auto x = over_finished(find_cell(context, row, a), &RunSummary::test_accuracy),
             y = over_finished(find_cell(context, row, b), &RunSummary::test_accuracy);
  const double paper = row.number(a) - row.number(b);
  std::string text = x.count == 0 || y.count == 0 ? "-" : fmt::format("{:+.2f}", 100 * (x.mean - y.mean));
  if (x.count > 1 && y.count > 1) text += fmt::format(" +- {:.2f}", 100 * std::hypot(x.deviation, y.deviation));
  return text + (std::isfinite(paper) ? fmt::format(" (paper {:+.2f})", paper) : "");
}

Table difference_table(const Context& context) {
  Table table{"Differences of test accuracy, in points; the spread is that of independent runs.", {"network"}, {}};
  for (const auto& [a, b] : context.item.comparisons) table.header.push_back(fmt::format("{} - {}", a, b));
  for (const auto& row : context.item.rows) {
    std::vector<std::string> cells = {row.network};
    for (const auto& [a, b] : context.item.comparisons) cells.push_back(difference_text(context, row, a, b));
    table.rows.push_back(cells);
  }
  return table;
}

/// Points beside the paper's, a panel for each network.
plot::Figure accuracy_figure(const Context& context) {
  plot::Figure figure;
  figure.title = context.item.title;
  figure.subtitle = "Last epoch; mean and standard deviation over the seeds that are there.";
  figure.columns = 2;
  figure.panel_width = 105 * static_cast<double>(context.item.regimes.size());  // the names of regimes are long
  figure.panel_height = 200;
  figure.shared_legend = true;
  for (const auto& row : context.item.rows) {
    plot::Panel panel;
    panel.title = row.network;
    panel.y.label = "test accuracy [%]";
    plot::Points here{"here", {}, {}, {}, {}}, paper{"paper", {}, {}, {}, {}};
    here.style.color = 0;
    here.style.marker = plot::Marker::kCircle;
    paper.style.color = 1;
    paper.style.marker = plot::Marker::kCross;
    for (const auto& regime : context.item.regimes_of(row)) {
      const auto x = static_cast<double>(panel.x.categories.size());
      const auto test = over_finished(find_cell(context, row, regime), &RunSummary::test_accuracy);
      panel.x.categories.push_back(regime);
      here.x.push_back(row.numbers.empty() ? x : x - 0.1);
      here.y.push_back(100 * test.mean);
      here.error.push_back(test.count > 1 ? 100 * test.deviation : 0);
      paper.x.push_back(x + 0.1);
      paper.y.push_back(row.number(regime));
    }
    panel.layers = {here};
    if (!row.numbers.empty()) panel.layers.emplace_back(paper);
    figure.panels.push_back(panel);
  }
  return figure;
}

/// A row a run, for programs.
CsvTable run_csv(const Context& context) {
  CsvTable csv({"row", "regime", "seed", "state", "epochs", "test_accuracy", "train_eval_accuracy", "paper_percent"});
  const auto text = [](const std::optional<double>& value) { return value ? fmt::to_string(*value) : std::string(); };
  for (const auto& cell : context.cells) {
    const double paper = cell.row.number(cell.regime);
    for (const auto& run : cell.runs) {
      csv.add(cell.row.recipe, cell.regime, run.spec.config.seed, state_text(run), run.summary.epoch,
              text(run.summary.test_accuracy), text(run.summary.train_eval_accuracy),
              std::isfinite(paper) ? fmt::to_string(paper) : std::string());
    }
  }
  return csv;
}

Json cell_json(const Cell& cell) {
  const auto a = accuracies_of(cell);
  const auto numbers = [](const MeanStd& spread) -> Json {
    return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"seeds", spread.count}};
  };
  return {{"row", cell.row.recipe},
          {"regime", cell.regime},
          {"test", numbers(a.test)},
          {"train", numbers(a.train)},
          {"train_minus_test", numbers(a.gap)},
          {"paper_percent", cell.row.number(cell.regime)},
          {"diverged", cell.with_state(RunState::kDiverged).size()},
          {"incomplete", cell.remark()}};
}

}  // namespace

Result make_accuracies(const Context& context) {
  Result result;
  result.tables = {accuracy_table(context), difference_table(context)};
  result.numbers["cells"] = Json::array();
  for (const auto& cell : context.cells) result.numbers["cells"].push_back(cell_json(cell));
  result.notes.emplace_back(
      "Accuracies of the last epoch, never the best: mean +- standard deviation over the seeds that are there. Train "
      "and test in evaluation mode.");
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add(context.item.name, run_csv(context));
  files.add(context.item.name, accuracy_figure(context));
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
