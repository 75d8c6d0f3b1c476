#include "covnoise/experiment/sweep.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/counted.h"
#include "covnoise/core/internal/csv.h"
#include "covnoise/core/internal/statistics.h"
#include "covnoise/plot/internal/study_files.h"
#include "experiment/plan.h"
#include "experiment/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

namespace covnoise {
namespace {

bool held_out(const SweepPoint& point) { return point.runs.front().config.data.holdout > 0; }

/// Columns of sweep.csv after those of the keys.
std::array<std::string, 5> result_columns(const SweepPoint& point) {
  return {"runs", "diverged", held_out(point) ? "held_out_accuracy" : "accuracy", "deviation", "test_accuracy"};
}

SweepOutcome outcome_of(const SweepPoint& point, const RunResult* results) {
  SweepOutcome outcome;
  outcome.point = point;
  std::vector<double> judged, tests;
  for (std::size_t i = 0; i < point.runs.size(); ++i) {
    const auto& summary = results[i].summary;
    if (!summary) continue;
    ++outcome.ended;
    outcome.diverged += summary->diverged ? 1 : 0;
    if (summary->diverged) continue;
    judged.push_back(summary->val_accuracy.value_or(summary->test_accuracy.value_or(NAN)));
    tests.push_back(summary->test_accuracy.value_or(NAN));
  }
  const MeanStd spread = mean_std_of(judged);
  outcome.accuracy = spread.mean;
  outcome.deviation = spread.deviation;
  outcome.test_accuracy = mean_std_of(tests).mean;
  return outcome;
}

/// NaN (every run diverged, or none has ended) is the worst.
bool better(const SweepOutcome& a, const SweepOutcome& b) {
  return std::isnan(b.accuracy) ? !std::isnan(a.accuracy) : a.accuracy > b.accuracy;
}

/// The outcomes of a saved table, by the keys and values of the setting.
using KnownOutcomes = std::map<std::map<std::string, std::string>, SweepOutcome>;

/// Refuses a table that was judged by another split than the points are.
KnownOutcomes read_earlier(const EarlierTable& earlier, const std::vector<SweepPoint>& points) {
  KnownOutcomes known;
  if (!earlier) return known;
  const auto& path = *earlier;
  const auto columns = result_columns(points.front());
  auto rows = read_csv_rows(path);
  for (auto& row : rows) {
    std::array<double, std::tuple_size_v<decltype(columns)>> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto cell = row.extract(columns[i]);
      require(!cell.empty(),
              fmt::format("{}: not the sweep.csv of a sweep that is judged by {}: it has no column '{}'", path.string(),
                          held_out(points.front()) ? "held-out examples" : "the test set", columns[i]));
      numbers[i] = std::strtod(cell.mapped().c_str(), nullptr);
    }
    std::map<std::string, std::string> values;
    for (const auto& [key, value] : row) {
      if (!value.empty()) values.emplace(key, value);
    }
    const auto [runs, diverged, accuracy, deviation, test_accuracy] = numbers;
    known[values] = {
        {}, static_cast<std::int64_t>(runs), static_cast<std::int64_t>(diverged), accuracy, deviation, test_accuracy};
  }
  require(!known.empty(), fmt::format("{}: has no lines; give the sweep.csv of a sweep", path.string()));
  return known;
}

SweepOutcome known_outcome(const SweepPoint& point, const KnownOutcomes& known) {
  const auto found = known.find({point.values.begin(), point.values.end()});
  auto outcome = found == known.end() ? SweepOutcome{} : found->second;
  outcome.point = point;
  return outcome;
}

/// The runs of the points of which not all runs are known.
std::vector<RunSpec> specs_of(const std::vector<SweepPoint>& points, const KnownOutcomes& known = {}) {
  std::vector<RunSpec> specs;
  for (const auto& point : points) {
    if (known_outcome(point, known).ended >= static_cast<std::int64_t>(point.runs.size())) continue;
    specs.insert(specs.end(), point.runs.begin(), point.runs.end());
  }
  return specs;
}

std::string nothing_to_train(const std::vector<SweepPoint>& points, const EarlierTable& earlier) {
  return fmt::format("{}, all in {} already: to train them again, give --table a new file, and no --earlier",
                     counted(points.size(), "setting"), earlier->string());
}

/// From the runs below `out`, or from the table where it knows more.
std::vector<SweepOutcome> ranked(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                                 const KnownOutcomes& known) {
  const auto results = collect_all(specs_of(points), out);
  std::vector<SweepOutcome> outcomes;
  const auto* of_point = results.data();
  for (const auto& point : points) {
    auto there = outcome_of(point, of_point);
    auto earlier = known_outcome(point, known);
    outcomes.push_back(earlier.ended > there.ended ? std::move(earlier) : std::move(there));
    of_point += point.runs.size();
  }
  std::stable_sort(outcomes.begin(), outcomes.end(), better);
  return outcomes;
}

/// The keys of all points, in the order of a configuration: grids may differ in their keys.
std::vector<std::string> keys_of(const std::vector<SweepOutcome>& outcomes) {
  std::set<std::string> there;
  for (const auto& outcome : outcomes) {
    for (const auto& [key, value] : outcome.point.values) there.insert(key);
  }
  std::vector<std::string> keys;
  for (const auto& key : config_keys()) {
    if (there.erase(key) > 0) keys.push_back(key);
  }
  keys.insert(keys.end(), there.begin(), there.end());  // "data", short for data.name
  return keys;
}

/// The point's value of each key, empty if it has none.
std::vector<std::string> cells_of(const SweepPoint& point, const std::vector<std::string>& keys) {
  std::vector<std::string> cells(keys.size());
  for (const auto& [key, value] : point.values) {
    cells[static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin())] = value;
  }
  return cells;
}

std::string remark(const SweepOutcome& outcome) {
  const auto all = static_cast<std::int64_t>(outcome.point.runs.size());
  std::string text = outcome.diverged > 0 ? fmt::format("{}/{} diverged", outcome.diverged, all) : "";
  if (outcome.ended < all) text += fmt::format("{}{}/{} missing", text.empty() ? "" : ", ", all - outcome.ended, all);
  return text;
}

}  // namespace

std::string sweep_plan(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                       const EarlierTable& earlier) {
  const auto specs = specs_of(points, read_earlier(earlier, points));
  if (specs.empty()) return nothing_to_train(points, earlier) + "\n";
  std::vector<Trained> runs;
  for (const auto& spec : specs) runs.push_back(look_up(spec, out));
  return plan_text(runs);
}

SweepResult run_sweep(const std::vector<SweepPoint>& points, const RunnerOptions& options,
                      const EarlierTable& earlier) {
  const auto known = read_earlier(earlier, points);
  const auto specs = specs_of(points, known);
  if (specs.empty()) options.say(nothing_to_train(points, earlier));
  const auto trained = run_all(specs, options);
  return {ranked(points, options.out, known), failures_of(trained)};
}

SweepResult collect_sweep(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                          const EarlierTable& earlier) {
  return {ranked(points, out, read_earlier(earlier, points)), {}};
}

std::string sweep_table(const std::vector<SweepOutcome>& outcomes) {
  const bool honest = held_out(outcomes.front().point);
  const auto keys = keys_of(outcomes);
  Table table{"", keys, {}};
  if (honest) table.header.emplace_back("held out [%]");
  table.header.insert(table.header.end(), {"test [%]", "remarks"});
  bool several = false;
  for (const auto& outcome : outcomes) {
    auto cells = cells_of(outcome.point, keys);
    cells.push_back(percent_interval_text({outcome.accuracy, outcome.deviation, outcome.ended - outcome.diverged}));
    if (honest) cells.push_back(percent_interval_text(mean_std_of({outcome.test_accuracy})));
    cells.push_back(remark(outcome));
    table.rows.push_back(cells);
    several = several || outcome.ended - outcome.diverged > 1;
  }
  return table.to_text() + (several ? "\n+- is half the 95 % confidence interval of the mean over the seeds.\n" : "") +
         (honest ? "" : "\nJudged by the test set: set data.holdout to keep it out of the choice.\n");
}

std::vector<std::filesystem::path> save_sweep(const std::vector<SweepOutcome>& outcomes,
                                              const std::filesystem::path& folder) {
  nlohmann::ordered_json json{{"judged_by", held_out(outcomes.front().point) ? "held out" : "test"}};
  const auto keys = keys_of(outcomes);
  auto header = keys;
  const auto results = result_columns(outcomes.front().point);
  header.insert(header.end(), results.begin(), results.end());
  CsvTable table(header);
  for (const auto& outcome : outcomes) {
    auto cells = cells_of(outcome.point, keys);
    nlohmann::ordered_json values;
    for (const auto& [key, value] : outcome.point.values) values[key] = value;
    for (const double number : {static_cast<double>(outcome.ended), static_cast<double>(outcome.diverged),
                                outcome.accuracy, outcome.deviation, outcome.test_accuracy})
      cells.push_back(fmt::to_string(number));
    if (outcome.ended > 0) table.add_row(cells);  // otherwise there is nothing to keep
    json["points"].push_back({{"values", values},
                              {"runs", outcome.ended},
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
