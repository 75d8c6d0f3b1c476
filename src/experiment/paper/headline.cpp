#include "covnoise/core/error.h"
#include "covnoise/core/internal/csv.h"
#include "covnoise/plot/internal/study_files.h"
#include "covnoise/train/internal/software.h"
#include "experiment/gpu_packing.h"
#include "experiment/paper/accuracies.h"
#include "experiment/paper/accuracy_figures.h"
#include "experiment/paper/comparisons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace covnoise::paper {
namespace {

constexpr const char* kBestNote =
    "The best large batch is the regime with the highest mean test accuracy among those with at least 3 seeds (with 2 "
    "or 1, if none has more) whose batch is the large one from the first step. The test set chose it, so its accuracy "
    "and difference are a little too good where several regimes were trained. Of equal means that of more seeds "
    "counts, then the one that the recipes list first. p is not adjusted for that choice, only by Holm's method over "
    "the "
    "rows; that of the pooled difference is of a single test.";
constexpr const char* kSecondsNote =
    "Seconds of a training that has the device to itself, evaluation included: the mean of the seeds that had, or with "
    "~ the time of some epochs, measured by bench/alone.py, times their number; - where neither is known.";

const Cell& small_batch(const Context& context, const Row& row) { return find_cell(context, row, "sb"); }

std::int64_t first_batch(const Cell& cell) { return cell.runs.front().spec.config.train.batch; }

/// The row's cells with finished runs whose batch is the large one from the first step.
std::vector<const Cell*> large_batches(const Context& context, const Row& row) {
  std::vector<const Cell*> cells;
  for (const auto& cell : context.cells) {
    const bool large = cell.row.recipe == row.recipe && first_batch(cell) > first_batch(small_batch(context, row));
    if (large && accuracies_of(cell).test.count > 0) cells.push_back(&cell);
  }
  return cells;
}

/// The best of them; null if there is none.
const Cell* best_large_batch(const Context& context, const Row& row) {
  const Cell* best = nullptr;
  const auto rank = [](const Cell& cell) {
    const auto test = accuracies_of(cell).test;
    const auto mean = std::llround(test.mean * 1e9);  // so that rounding decides between no equal means
    return std::tuple(std::min<std::int64_t>(test.count, 3), mean, test.count);
  };
  for (const auto* cell : large_batches(context, row)) {
    if (!best || rank(*cell) > rank(*best)) best = cell;
  }
  return best;
}

/// Seconds of a training that has the device to itself, by row and regime, from bench/alone.py; empty without its
/// table.
using SecondsAlone = std::map<std::pair<std::string, std::string>, double>;

SecondsAlone seconds_alone(const std::filesystem::path& table) {
  SecondsAlone seconds;
  if (!std::filesystem::exists(table)) return seconds;
  for (const auto& line : read_csv_rows(table)) {
    for (const char* column : {"row", "regime", "seconds"})
      require(line.count(column) == 1, fmt::format("{} has no column {}", table.string(), column));
    const std::string& text = line.at("seconds");
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    require(end != text.c_str() && *end == '\0' && value > 0,
            fmt::format("{}: '{}' is not a number of seconds", table.string(), text));
    seconds[{line.at("row"), line.at("regime")}] = value;
  }
  return seconds;
}

/// "57" for runs that were trained alone, "~245" from some of their epochs; "-" where neither is known.
std::string seconds_text(const Cell& cell, const SecondsAlone& of_epochs) {
  std::vector<double> alone;
  for (const auto* run : cell.with_state(RunState::kFinished)) {
    if (Packing(run->stored->document(kPacking)).alone()) alone.push_back(run->summary.seconds);
  }
  if (!alone.empty()) return fmt::format("{:.0f}", mean_std_of(alone).mean);
  const auto found = of_epochs.find({cell.row.recipe, cell.regime});
  return found == of_epochs.end() ? "-" : fmt::format("~{:.0f}", found->second);
}

std::string accuracy_text(const Cell& cell) {
  const auto test = accuracies_of(cell).test;
  return test.count == 0 ? "not measured" : fmt::format("{} ({})", percent_interval_text(test), test.count);
}

/// The paper's best large batch, lb-diag, less its small one, in points.
double paper_difference(const Row& row) { return row.number("lb-diag") - row.number("sb"); }

struct HeadlineRow {
  const Cell* small;
  const Cell* large;  // null: none
  RowDifference difference;
};

std::vector<HeadlineRow> headline_rows(const Context& context) {
  std::vector<HeadlineRow> rows;
  for (const auto& row : context.item.rows) {
    HeadlineRow line{&small_batch(context, row), best_large_batch(context, row), {}};
    line.difference.row = row;
    line.difference.second_seeds = accuracies_of(*line.small).test.count;
    if (line.large) line.difference = compare_cells(*line.large, *line.small);
    line.difference.paper = paper_difference(row);
    line.difference.paper_p = line.difference.difference.p_value(line.difference.paper);
    rows.push_back(std::move(line));
  }
  std::vector<RowDifference*> family;
  for (auto& line : rows) family.push_back(&line.difference);
  adjust(family);
  return rows;
}

Table headline_table(const std::vector<HeadlineRow>& rows, const std::vector<Row>& left_out, const Pooled& pooled,
                     const SecondsAlone& seconds) {
  Table table{"",
              {"network", "sb [%] (seeds)", "seconds", "best large batch", "[%] (seeds)", "seconds",
               "difference [95 % interval]", "p", "paper: lb-diag - sb"},
              {}};
  for (const auto& line : rows) {
    const auto& compared = line.difference;
    table.rows.push_back({compared.row.network, accuracy_text(*line.small), seconds_text(*line.small, seconds),
                          line.large ? line.large->regime : "-",
                          line.large ? accuracy_text(*line.large) : "not measured",
                          line.large ? seconds_text(*line.large, seconds) : "-",
                          compared.there() ? estimate_text(compared.difference) : "-", p_text(compared.p),
                          fmt::format("{:+.2f}", compared.paper)});
  }
  for (const auto& row : left_out) {
    const auto& network = row.other_network.empty() ? row.network : row.other_network;
    table.rows.push_back({network, "not measured", "-", "-", "not measured", "-", "-", "-",
                          fmt::format("{:+.2f}", paper_difference(row))});
  }
  if (pooled.rows > 1)
    table.rows.push_back({fmt::format("pooled, {} rows", pooled.rows), "", "", "", "", "", estimate_text(pooled.mean),
                          p_text(pooled.mean.p_value()), ""});
  return table;
}

/// What the finished runs were trained on.
std::string device_note(const std::vector<HeadlineRow>& rows) {
  std::set<std::string> devices;
  for (const auto& line : rows) {
    for (const Cell* cell : {line.small, line.large}) {
      if (!cell) continue;
      for (const auto* run : cell->with_state(RunState::kFinished)) {
        const auto software = run->stored->document(kSoftware);
        devices.insert(software.value("gpu", run->spec.config.run.device));
      }
    }
  }
  return devices.empty() ? "" : fmt::format("Trained on: {}.", fmt::join(devices, ", "));
}

/// What has a higher mean than the best large batch, but too few seeds to count.
std::string few_seeds_note(const Context& context, const std::vector<HeadlineRow>& rows) {
  std::vector<std::string> higher;
  for (const auto& line : rows) {
    if (!line.large) continue;
    const auto& row = line.large->row;
    for (const auto* cell : large_batches(context, row)) {
      if (accuracies_of(*cell).test.mean > accuracies_of(*line.large).test.mean)
        higher.push_back(fmt::format("{}: {} {}", row.network, cell->regime, accuracy_text(*cell)));
    }
  }
  return higher.empty() ? "" : fmt::format("Higher means of fewer seeds: {}.", fmt::join(higher, "; "));
}

CsvTable headline_csv(const std::vector<HeadlineRow>& rows) {
  CsvTable csv({"row", "large_batch_regime", "difference", "low", "high", "sb_seeds", "large_batch_seeds"});
  for (const auto& line : rows) {
    const auto& compared = line.difference;
    csv.add(compared.row.recipe, line.large ? line.large->regime : "", compared.difference.value,
            compared.difference.low(), compared.difference.high(), compared.second_seeds, compared.first_seeds);
  }
  return csv;
}

}  // namespace

Result make_headline(const Context& context) {
  const auto rows = headline_rows(context);
  ComparedRows compared{{"best large batch", "sb", true}, {}, {}};
  std::vector<Estimate> estimates;
  for (const auto& line : rows) {
    compared.rows.push_back(line.difference);
    estimates.push_back(line.difference.difference);
  }
  compared.pooled = pool_random_effects(estimates);
  Result result;
  result.tables = {headline_table(rows, context.item.left_out, compared.pooled,
                                  seconds_alone(context.options.results_folder() / "alone.csv"))};
  result.notes = {kAccuracyNote, kBestNote};
  if (const auto note = few_seeds_note(context, rows); !note.empty()) result.notes.push_back(note);
  result.notes.emplace_back(kSecondsNote);
  if (const auto note = device_note(rows); !note.empty()) result.notes.push_back(note);
  result.numbers["comparison"] = comparison_json(compared);
  StudyFiles files(context.folder, plot::Formats::kSvg);
  files.add(context.item.name, headline_csv(rows));
  files.add(context.item.name, forest_figure(context, {compared}));
  adopt(result, context, files.paths());
  return result;
}

}  // namespace covnoise::paper
