#include "experiment/paper/accuracies.h"

#include "covnoise/plot/internal/study_files.h"
#include "experiment/paper/accuracy_figures.h"
#include "experiment/paper/comparisons.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::paper {
namespace {

Table accuracy_table(const Context& context) {
  Table table{"", {"network", "regime", "test [%]", "paper [%]", "seeds", "train [%]", "train - test", "remarks"}, {}};
  std::string last;
  for (const auto& cell : context.cells) {
    const auto a = accuracies_of(cell);
    table.rows.push_back({cell.row.network == last ? "" : cell.row.network, cell.regime, percent_interval_text(a.test),
                          number_text(cell.row.number(cell.regime)), fmt::to_string(a.test.count),
                          percent_interval_text(a.train), percent_interval_text(a.gap), cell.remarks()});
    last = cell.row.network;
  }
  return table;
}

}  // namespace

const char* const kAccuracyNote =
    "Accuracies are those of the last epoch, never the best, in evaluation mode; +- is half the 95 % confidence "
    "interval of the mean over the available seeds (Student's t), which a single seed does not have.";

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
  const auto numbers = [](const MeanStd& sample) -> Json {
    return {{"mean", sample.mean},
            {"deviation", sample.deviation},
            {"half_width", half_width(sample)},
            {"seeds", sample.count}};
  };
  const auto& train = cell.runs.front().spec.config.train;
  return {{"row", cell.row.recipe},
          {"regime", cell.regime},
          {"lr", train.lr},
          {"weight_decay", train.weight_decay},
          {"test", numbers(a.test)},
          {"test_by_seed", a.tests},
          {"train", numbers(a.train)},
          {"train_minus_test", numbers(a.gap)},
          {"weight_norm", numbers(a.weight_norm)},
          {"paper_percent", cell.row.number(cell.regime)},
          {"diverged", cell.with_state(RunState::kDiverged).size()},
          {"incomplete", cell.remark()},
          {"remarks", cell.remarks()}};
}

Accuracies accuracies_of(const Cell& cell) {
  Accuracies result;
  std::vector<double> gaps;
  for (const auto* run : cell.with_state(RunState::kFinished)) {
    const auto& s = run->summary;
    if (s.test_accuracy) result.tests.push_back(*s.test_accuracy);
    if (s.test_accuracy && s.train_eval_accuracy) gaps.push_back(*s.train_eval_accuracy - *s.test_accuracy);
  }
  result.test = mean_std_of(result.tests);
  result.train = over_finished(cell, &RunSummary::train_eval_accuracy);
  result.gap = mean_std_of(gaps);
  result.weight_norm = over_finished(cell, &RunSummary::weight_norm);
  return result;
}

const Cell& find_cell(const Context& context, const Row& row, const std::string& regime) {
  const auto found = std::find_if(context.cells.begin(), context.cells.end(), [&](const Cell& cell) {
    return cell.row.recipe == row.recipe && cell.regime == regime;
  });
  TORCH_INTERNAL_ASSERT(found != context.cells.end());
  return *found;
}

Result make_accuracies(const Context& context) {
  const auto comparisons = compare_rows(context);
  Result result;
  result.tables = {accuracy_table(context)};
  result.numbers["cells"] = result.numbers["comparisons"] = Json::array();
  for (const auto& cell : context.cells) result.numbers["cells"].push_back(cell_json(cell));
  for (const auto& compared : comparisons) {
    result.tables.push_back(comparison_table(compared));
    result.numbers["comparisons"].push_back(comparison_json(compared));
  }
  result.notes = {kAccuracyNote, kComparisonNote};
  if (const auto note = cifar_note(comparisons); !note.empty()) result.notes.push_back(note);
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add(context.item.name, run_csv(context));
  files.add(context.item.name + "-forest", forest_figure(context, comparisons));
  files.add(context.item.name, accuracy_figure(context));
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
