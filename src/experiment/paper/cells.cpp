#include "experiment/paper/cells.h"

#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/run_records.h"
#include "covnoise/train/internal/software.h"
#include "experiment/gpu_packing.h"
#include "experiment/paper/recipes.h"
#include "experiment/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;

/// Reduces epochs and examples, to a whole number of large batches.
void shrink(Config& config, double scale) {
  const auto scaled = [&](std::int64_t count, std::int64_t unit) {
    const double units = scale * static_cast<double>(count) / static_cast<double>(unit);
    return std::max<std::int64_t>(1, std::llround(units)) * unit;
  };
  config.train.epochs = scaled(config.train.epochs, 1);
  config.data.train_limit = scaled(config.data.train_limit, largest_batch(config));
  config.data.test_limit = scaled(config.data.test_limit, 1);
}

/// Names of the folders in a row's folder.
std::set<std::string> names_in(const fs::path& row_folder) {
  std::set<std::string> names;
  std::error_code none;
  for (fs::directory_iterator entry(row_folder, none), end; entry != end; entry.increment(none)) {
    names.insert(entry->path().filename().string());
  }
  return names;
}

/// Seeds of a regime's runs among these names, <regime>-s<seed>.
std::set<std::uint64_t> seeds_of(const std::set<std::string>& names, const std::string& regime) {
  std::set<std::uint64_t> seeds;
  const std::string prefix = regime + "-s";
  for (const auto& name : names) {
    unsigned long long seed = 0;
    if (name.rfind(prefix, 0) != 0 || std::sscanf(name.c_str() + prefix.size(), "%llu", &seed) != 1) continue;
    if (name == prefix + std::to_string(seed)) seeds.insert(seed);
  }
  return seeds;
}

fs::path record_folder(const Options& options) { return options.results_folder() / "runs"; }

fs::path record_file(const std::string& row, const Options& options) {
  return record_folder(options) / (row + kRecordFileEnding);
}

/// The row of a run, by its name.
std::string row_of(const RunSpec& spec) { return fs::path(spec.name).parent_path().string(); }

Json kept_of(const Trained& run) {
  return run.stored->record({kSoftware, kPacking, kEigenvalue, kGradientVariance, kFrobeniusNorms, kTrainingError});
}

/// The records of a row by name: those of its file, and folders, the form of version 0.1, if the file does not have
/// them.
std::map<std::string, StoredRun> records_of(const std::string& row, const Options& options) {
  std::map<std::string, StoredRun> records;
  for (auto& record : read_records(record_file(row, options))) records.emplace(record.name(), std::move(record));
  const fs::path folder = record_folder(options) / row;
  for (const auto& name : names_in(folder)) {
    if (fs::exists(RunFolder{folder / name}.config())) records.emplace(name, StoredRun(folder / name));
  }
  return records;
}

/// What is available of the runs of one row.
class RowRuns {
 public:
  RowRuns(const std::string& row, const Options& options)
      : options_(options), names_(names_in(options.runner.out / "runs" / row)), records_(records_of(row, options)) {
    for (const auto& [name, record] : records_) names_.insert(name);
  }

  const std::set<std::string>& names() const { return names_; }

  Trained find(const RunSpec& spec) const {
    auto run = look_up(spec, options_.runner.out);
    const auto record = records_.find(fs::path(spec.name).filename().string());
    return run.state == RunState::kMissing && record != records_.end() ? from_record(spec, record->second) : run;
  }

 private:
  const Options& options_;
  std::set<std::string> names_;
  std::map<std::string, StoredRun> records_;
};

}  // namespace

RunSpec spec_of(const Row& row, const std::string& regime, std::uint64_t seed, const Options& options) {
  const auto recipe = find_recipe(row.recipe, options.recipes);
  const auto variant =
      std::find_if(row.variants.begin(), row.variants.end(), [&](const Variant& one) { return one.name == regime; });
  const bool own = variant != row.variants.end();
  std::vector<std::string> overrides = {"regime=" + (own ? variant->regime : regime), fmt::format("seed={}", seed)};
  if (own) overrides.insert(overrides.end(), variant->settings.begin(), variant->settings.end());
  overrides.insert(overrides.end(), options.set.begin(), options.set.end());
  Config config = load_recipe(recipe.text, recipe.name, overrides);
  if (options.scale != 1) shrink(config, options.scale);
  resolve_defaults(config);
  check_config(config);
  return {fmt::format("{}/{}-s{}", row.recipe, regime, seed), config};
}

std::vector<Cell> read_cells(const Item& item, const Options& options) {
  const auto& asked = options.seeds.empty() ? item.effort.seeds : options.seeds;
  std::vector<Cell> cells;
  for (const auto& row : item.rows) {
    const RowRuns runs(row.recipe, options);
    for (const auto& regime : item.regimes_of(row)) {
      auto seeds = seeds_of(runs.names(), regime);
      seeds.insert(asked.begin(), asked.end());
      Cell cell{row, regime, {}};
      for (const auto seed : seeds) cell.runs.push_back(runs.find(spec_of(row, regime, seed, options)));
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

void keep_records(const std::vector<Cell>& cells, const Options& options) {
  std::map<fs::path, std::vector<Json>> records;  // by file
  for (const auto& cell : cells) {
    for (const auto& run : cell.runs) {
      if (!run.there()) continue;
      const auto file = record_file(cell.row.recipe, options);
      // What was read from the file is in it, unless another command has replaced it by something newer.
      if (run.stored->path().parent_path() == file.parent_path()) continue;
      records[file].push_back(kept_of(run));
    }
  }
  for (const auto& [file, of_row] : records) update_records(file, of_row);
}

void keep_record(const RunSpec& spec, const Options& options) {
  update_records(record_file(row_of(spec), options), {kept_of(look_up(spec, options.runner.out))});
}

std::vector<Trained> available_runs(const Item& item, const std::vector<RunSpec>& specs, const Options& options) {
  std::map<std::string, RowRuns> rows;
  std::vector<Trained> runs;
  for (const auto& spec : specs) {
    if (item.uses_networks)
      runs.push_back(look_up(spec, options.runner.out));
    else
      runs.push_back(rows.try_emplace(row_of(spec), row_of(spec), options).first->second.find(spec));
  }
  return runs;
}

std::vector<const Trained*> Cell::with_state(RunState state) const {
  std::vector<const Trained*> found;
  for (const auto& run : runs) {
    if (run.state == state) found.push_back(&run);
  }
  return found;
}

bool Cell::not_run() const { return with_state(RunState::kMissing).size() == runs.size(); }

std::string Cell::remark() const {
  if (not_run()) return "not run";
  std::string text;
  for (const auto& run : runs) {
    if (run.state == RunState::kFinished) continue;
    text += fmt::format("{}seed {} {}", text.empty() ? "" : ", ", run.spec.config.seed, state_text(run));
  }
  return text;
}

std::string Cell::remarks() const {
  std::vector<std::uint64_t> ill;
  double jump = 0;
  for (const auto* run : with_state(RunState::kFinished)) {
    if (run->summary.loss_above_guessing) ill.push_back(run->spec.config.seed);
    jump = std::max(jump, run->summary.loss_jump.value_or(0));
  }
  std::vector<std::string> parts;
  if (const auto missing = remark(); !missing.empty()) parts.push_back(missing);
  if (!ill.empty())
    parts.push_back(
        fmt::format("loss above guessing with seed{} {}", ill.size() == 1 ? "" : "s", fmt::join(ill, ", ")));
  if (jump > kLargestHealthyLossJump) parts.push_back(fmt::format("loss rises {:.1f} times when the noise ends", jump));
  return fmt::format("{}", fmt::join(parts, "; "));
}

MeanStd over_finished(const Cell& cell, std::optional<double> RunSummary::*value) {
  std::vector<double> values;
  for (const auto* run : cell.with_state(RunState::kFinished)) {
    if (run->summary.*value) values.push_back(*(run->summary.*value));
  }
  return mean_std_of(values);
}

}  // namespace covnoise::paper
