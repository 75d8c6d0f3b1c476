#include "experiment/paper/cells.h"

#include "covnoise/train/defaults.h"
#include "experiment/paper/recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;

/// Fewer epochs and examples, whole large batches of them.
void shrink(Config& config, double scale) {
  std::int64_t largest = config.train.batch;
  for (const auto& change : config.train.batch_schedule) largest = std::max(largest, change.batch);
  const auto scaled = [&](std::int64_t count, std::int64_t unit) {
    const double units = scale * static_cast<double>(count) / static_cast<double>(unit);
    return std::max<std::int64_t>(1, std::llround(units)) * unit;
  };
  config.train.epochs = scaled(config.train.epochs, 1);
  config.data.train_limit = scaled(config.data.train_limit, largest);
  config.data.test_limit = scaled(config.data.test_limit, 1);
}

/// Seeds of a regime's runs that have a folder.
std::set<std::uint64_t> seeds_there(const fs::path& row_folder, const std::string& regime) {
  std::set<std::uint64_t> seeds;
  std::error_code none;
  for (fs::directory_iterator entry(row_folder, none), end; entry != end; entry.increment(none)) {
    const std::string name = entry->path().filename().string();
    unsigned long long seed = 0;
    const std::string prefix = regime + "-s";
    if (name.rfind(prefix, 0) != 0 || std::sscanf(name.c_str() + prefix.size(), "%llu", &seed) != 1) continue;
    if (name == prefix + std::to_string(seed)) seeds.insert(seed);
  }
  return seeds;
}

}  // namespace

RunSpec spec_of(const Row& row, const std::string& regime, std::uint64_t seed, const Options& options) {
  const auto recipe = find_recipe(row.recipe, options.recipes);
  std::vector<std::string> overrides = {"regime=" + regime, fmt::format("seed={}", seed)};
  overrides.insert(overrides.end(), options.set.begin(), options.set.end());
  Config config = load_recipe(recipe.text, recipe.name, overrides);
  if (options.scale != 1) shrink(config, options.scale);
  resolve_defaults(config);
  check_config(config);
  return {fmt::format("{}/{}-s{}", row.recipe, regime, seed), config};
}

std::vector<Cell> read_cells(const Item& item, const Options& options) {
  const auto& asked = options.seeds.empty() ? item.effort.seeds : options.seeds;
  const fs::path runs = options.runner.out / "runs", records = options.runner.out / "results" / "runs";
  const auto find = [&](const RunSpec& spec) {
    auto run = look_into(runs / spec.name, spec);
    if (run.state != RunState::kMissing) return run;
    run = look_into(records / spec.name, spec);
    run.records_only = true;
    return run;
  };
  std::vector<Cell> cells;
  for (const auto& row : item.rows) {
    for (const auto& regime : item.regimes_of(row)) {
      auto seeds = seeds_there(runs / row.recipe, regime);
      seeds.merge(seeds_there(records / row.recipe, regime));
      seeds.insert(asked.begin(), asked.end());
      Cell cell{row, regime, {}};
      for (const auto seed : seeds) cell.runs.push_back(find(spec_of(row, regime, seed, options)));
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

std::vector<const Trained*> Cell::with_state(RunState state) const {
  std::vector<const Trained*> found;
  for (const auto& run : runs) {
    if (run.state == state) found.push_back(&run);
  }
  return found;
}

std::string Cell::remark() const {
  const auto missing = with_state(RunState::kMissing);
  if (missing.size() == runs.size()) return "not run";
  std::string text;
  for (const auto& run : runs) {
    if (run.state == RunState::kFinished) continue;
    text += fmt::format("{}seed {} {}", text.empty() ? "" : ", ", run.spec.config.seed, state_text(run));
  }
  return text;
}

MeanStd over_finished(const Cell& cell, std::optional<double> RunSummary::*value) {
  std::vector<double> values;
  for (const auto* run : cell.with_state(RunState::kFinished)) {
    if (run->summary.*value) values.push_back(*(run->summary.*value));
  }
  return mean_std_of(values);
}

}  // namespace covnoise::paper
