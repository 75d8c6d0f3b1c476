#include "covnoise/experiment/sweep.h"

#include "covnoise/core/spread.h"
#include "plot/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

bool held_out(const SweepOutcome& outcome) { return outcome.point.runs.front().config.data.holdout > 0; }

SweepOutcome outcome_of(const SweepPoint& point, const RunResult* results) {
  SweepOutcome outcome;
  outcome.point = point;
  std::vector<double> judged, tests;
  for (std::size_t i = 0; i < point.runs.size(); ++i) {
    const auto& summary = results[i].summary;
    if (summary.diverged) {
      ++outcome.diverged;
      continue;
    }
    judged.push_back(summary.val_accuracy.value_or(summary.test_accuracy.value_or(NAN)));
    tests.push_back(summary.test_accuracy.value_or(NAN));
  }
  const Spread spread = spread_of(judged);
  outcome.accuracy = spread.mean;
  outcome.deviation = spread.deviation;
  outcome.test_accuracy = spread_of(tests).mean;
  return outcome;
}

/// NaN, where everything diverged, is the worst.
bool better(const SweepOutcome& a, const SweepOutcome& b) {
  return std::isnan(b.accuracy) ? !std::isnan(a.accuracy) : a.accuracy > b.accuracy;
}

}  // namespace

std::vector<SweepOutcome> run_sweep(const std::vector<SweepPoint>& points, const RunnerOptions& options) {
  std::vector<RunSpec> specs;
  for (const auto& point : points) specs.insert(specs.end(), point.runs.begin(), point.runs.end());
  const auto results = run_all(specs, options);
  std::vector<SweepOutcome> outcomes;
  std::size_t first = 0;
  for (const auto& point : points) {
    outcomes.push_back(outcome_of(point, &results[first]));
    first += point.runs.size();
  }
  std::stable_sort(outcomes.begin(), outcomes.end(), better);
  return outcomes;
}

std::string sweep_table(const std::vector<SweepOutcome>& outcomes) {
  const bool honest = held_out(outcomes.front());
  std::string text;
  for (const auto& [key, value] : outcomes.front().point.values) text += fmt::format("{:<20}", key);
  text += fmt::format("{:>20}{:>12}{:>12}\n", honest ? "held out [%]" : "test [%]", "test [%]", "diverged");
  for (const auto& outcome : outcomes) {
    for (const auto& [key, value] : outcome.point.values) text += fmt::format("{:<20}", value);
    text += fmt::format("{:>20}{:>12}{:>12}\n", percent_text({outcome.accuracy, outcome.deviation, 0}),
                        percent_text({outcome.test_accuracy, 0, 0}),
                        outcome.diverged > 0 ? fmt::format("{}/{}", outcome.diverged, outcome.point.runs.size()) : "");
  }
  if (!honest) text += "\nJudged by the test set: set data.holdout for a choice that may be compared.\n";
  return text;
}

std::vector<std::filesystem::path> save_sweep(const std::vector<SweepOutcome>& outcomes,
                                              const std::filesystem::path& folder) {
  nlohmann::ordered_json json{{"judged_by", held_out(outcomes.front()) ? "held out" : "test"}};
  std::vector<std::string> header;
  for (const auto& [key, value] : outcomes.front().point.values) header.push_back(key);
  header.insert(header.end(), {"runs", "diverged", "accuracy", "deviation", "test_accuracy"});
  CsvTable table(header);
  for (const auto& outcome : outcomes) {
    std::vector<std::string> cells;
    nlohmann::ordered_json values;
    for (const auto& [key, value] : outcome.point.values) {
      cells.push_back(value);
      values[key] = value;
    }
    for (const double number : {static_cast<double>(outcome.point.runs.size()), static_cast<double>(outcome.diverged),
                                outcome.accuracy, outcome.deviation, outcome.test_accuracy})
      cells.push_back(fmt::to_string(number));
    table.add_row(cells);
    json["points"].push_back({{"values", values},
                              {"runs", outcome.point.runs.size()},
                              {"diverged", outcome.diverged},
                              {"accuracy", outcome.accuracy},
                              {"deviation", outcome.deviation},
                              {"test_accuracy", outcome.test_accuracy}});
  }
  StudyFiles files(folder);
  files.add("sweep", table);
  files.add("sweep", json);
  return files.paths();
}

}  // namespace covnoise
