#include "experiment/paper/recipes.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/internal/paper.h"
#include "covnoise/experiment/sweep.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/regimes.h"
#include "covnoise/train/schedule.h"
#include "experiment/paper/items.h"
#include "experiment/paper/variants.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

namespace covnoise::paper {
namespace {

/// Every regime of every row of both sizes.
std::vector<std::pair<Row, std::string>> all_cells(bool quick) {
  std::vector<std::pair<Row, std::string>> cells;
  for (const auto& name : item_names()) {
    const Item item = find_item(name, quick);
    if (item.with_variants) continue;  // of recipes that are not embedded
    for (const auto& row : item.rows) {
      for (const auto& regime : item.regimes_of(row)) cells.emplace_back(row, regime);
    }
  }
  return cells;
}

TEST(PaperRecipes, GiveEveryCellItsOwnRate) {
  for (const bool quick : {false, true}) {
    for (const auto& [row, regime] : all_cells(quick)) {
      const auto recipe = find_recipe(row.recipe, "");
      const Config config = load_recipe(recipe.text, recipe.name, {"regime=" + regime});
      EXPECT_GT(config.train.lr, 0) << row.recipe << " " << regime;
      for (const auto& change : config.train.batch_schedule) EXPECT_GT(change.lr, 0) << row.recipe;
      EXPECT_TRUE(!config.noise.scale.match || config.noise.match_lr > 0) << row.recipe;
    }
  }
}

/// CIFAR: warm-up 10, decay at 100 and 150 of 200, noise off at 50; MNIST: 5, 25, 37 of 50, 12.
TEST(PaperRecipes, HaveThePapersSchedules) {
  for (const auto& row : find_item("table2", false).rows) {
    const bool cifar = row.recipe.rfind("cifar", 0) == 0;
    const auto recipe = find_recipe(row.recipe, "");
    for (const char* regime : {"sb", "lb", "batch-change", "lb-diag-match"}) {
      const Config config = load_recipe(recipe.text, recipe.name, {std::string("regime=") + regime});
      const std::int64_t epochs = cifar ? 200 : 50;
      EXPECT_EQ(config.train.epochs, epochs);
      EXPECT_EQ(config.train.warmup, cifar ? 10 : 5);
      EXPECT_EQ(epoch_of_setting(config.train.milestones.at(0), epochs), cifar ? 100 : 25);
      EXPECT_EQ(epoch_of_setting(config.train.milestones.at(1), epochs), cifar ? 150 : 37);
      EXPECT_DOUBLE_EQ(config.noise.stop_after * static_cast<double>(epochs), cifar ? 50 : 12);
      EXPECT_EQ(config.train.eval_train, "last");
      if (config.train.batch_schedule.empty()) continue;
      EXPECT_EQ(epoch_of_setting(config.train.batch_schedule[0].epoch, epochs), cifar ? 50 : 12);
    }
  }
}

/// A shortened run, as in the searches: the warm-up keeps its epochs, the rest scales with the length.
TEST(PaperRecipes, KeepTheirWarmUpInAShortRun) {
  const auto recipe = find_recipe("cifar10-resnet44", "");
  const Config config = load_recipe(recipe.text, recipe.name, {"regime=lb-diag", "train.epochs=40"});
  const Schedule schedule(config, 4096 * 10);
  EXPECT_DOUBLE_EQ(schedule.lr(49), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr(99), 1.6);   // the end of epoch 10
  EXPECT_DOUBLE_EQ(schedule.lr(199), 1.6);  // the end of epoch 20
  EXPECT_DOUBLE_EQ(schedule.lr(200), 0.16);
  EXPECT_DOUBLE_EQ(schedule.lr(300), 0.016);
  EXPECT_EQ(config.noise.stop_after, 0.25);
}

/// The first line of the file names the keys, the others the values that each recipe had for each regime when the
/// results were trained: other defaults must not change them.
TEST(PaperRecipes, ResolveToWhatTheResultsWereTrainedWith) {
  std::istringstream file(read_file(testing::source_dir() / "tests/experiment/paper/resolved_recipes.txt"));
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, '|');) cells.push_back(cell);
    return cells;
  };
  std::string line;
  std::getline(file, line);
  const auto keys = cells_of(line);
  std::size_t checked = 0;
  for (; std::getline(file, line); ++checked) {
    const auto expected = cells_of(line);
    ASSERT_EQ(expected.size(), keys.size()) << line;
    const auto recipe = find_recipe(expected[0], "");
    Config config = load_recipe(recipe.text, recipe.name, {"regime=" + expected[1]});
    resolve_defaults(config);
    const auto values = config_values(config);
    for (std::size_t i = 2; i < keys.size(); ++i) {
      const auto found = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == keys[i]; });
      ASSERT_NE(found, values.end()) << keys[i];
      EXPECT_EQ(found->second, expected[i]) << expected[0] << " " << expected[1] << " " << keys[i];
    }
  }
  EXPECT_EQ(checked, embedded_recipes().size() * regime_names().size());
}

TEST(PaperRecipes, AnOwnFolderTakesTheirPlace) {
  testing::TemporaryFolder folder;
  const auto written = write_recipes(folder / "mine");
  EXPECT_EQ(written.size(), embedded_recipes().size());
  EXPECT_THROW(write_recipes(folder / "mine"), Error);  // would overwrite the user's changes
  Options options;
  options.recipes = folder / "mine";
  const auto path = folder / "mine" / "mnist-mlp.toml";
  std::string text = read_file(path);
  text.replace(text.find("epochs = 50"), 11, "epochs = 7 ");
  write_file_synced(path, text);
  EXPECT_EQ(planned_runs("table2", options).front().config.train.epochs, 7);
  std::filesystem::remove(path);
  EXPECT_EQ(planned_runs("table2", options).front().name, "mnist-lenet/sb-s0");  // a row without a recipe is left out
  options.rows = {"mnist-mlp"};
  EXPECT_THROW(planned_runs("table2", options), Error);
}

/// The settings that the searches try, by row: of the grids that have `part`.
std::multimap<std::string, Config> searched_configs(const std::string& part = "") {
  std::multimap<std::string, Config> configs;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_dir() / "recipes/paper/search")) {
    auto sweep = read_sweep_file(entry.path()).value().options;
    for (const auto& grid : std::vector<std::string>(std::exchange(sweep.grids, {}))) {
      if (grid.find(part) == std::string::npos) continue;
      sweep.grids = {grid};
      for (const auto& point : sweep_points(sweep)) {
        for (const auto& run : point.runs) configs.emplace(entry.path().stem().string(), run.config);
      }
    }
  }
  return configs;
}

/// The learning rate and the weight decay of a setting; with a batch schedule, the learning rate after the change.
std::pair<double, double> rate_and_decay(const Config& config) {
  const auto& changes = config.train.batch_schedule;
  return {changes.empty() ? config.train.lr : changes.back().lr, config.train.weight_decay};
}

TEST(PaperRecipes, HaveRatesAndWeightDecaysOfTheSearch) {
  using Cell = std::pair<std::string, std::string>;  // row and regime
  std::map<Cell, std::set<std::pair<double, double>>> tried;
  for (const auto& [row, config] : searched_configs("train.weight_decay=")) {
    tried[{row, config.regime}].insert(rate_and_decay(config));
  }
  std::map<Cell, std::set<double>> rates;  // also of grids that leave the weight decay to the recipe
  for (const auto& [row, config] : searched_configs()) rates[{row, config.regime}].insert(rate_and_decay(config).first);
  auto cells = all_cells(false);
  for (const auto& row : find_item("table2", false).rows) {  // also the regimes that the paper's tables lack
    for (const char* regime : {"batch-change", "lb-multiplicative", "lb-kfac"}) cells.emplace_back(row, regime);
  }
  for (const auto& [row, regime] : cells) {
    if (row.recipe.rfind("fig3", 0) == 0) continue;  // one learning rate for all, not tuned
    const auto recipe = find_recipe(row.recipe, "");
    const auto& settings = tried[{row.recipe, regime}];
    std::set<double> decays;
    for (const auto& setting : settings) decays.insert(setting.second);
    EXPECT_GE((rates[{row.recipe, regime}].size()), 2u) << row.recipe << " " << regime;
    EXPECT_GE(decays.size(), 2u) << row.recipe << " " << regime;
    EXPECT_EQ(settings.count(rate_and_decay(load_recipe(recipe.text, recipe.name, {"regime=" + regime}))), 1u)
        << row.recipe << " " << regime;
  }
}

/// At most 40 runs were planned to choose the noise and its duration; these were run.
TEST(PaperRecipes, TheSearchOnResNet44HasItsShortRuns) {
  const std::set<std::string> first = {"sb", "lb", "lb-diag", "lb-diag-match"};
  std::size_t short_runs = 0;
  for (const auto& [row, config] : searched_configs()) {
    if (row == "cifar10-resnet44" && config.train.epochs < 200 && first.count(config.regime) > 0) ++short_runs;
  }
  EXPECT_EQ(short_runs, 38u);
}

TEST(PaperRecipes, TheSearchTriesTheRatesThatThePaperGives) {
  std::set<std::tuple<std::string, std::string, double>> tried;
  for (const auto& [row, config] : searched_configs()) tried.emplace(row, config.regime, config.train.lr);
  for (const char* row : {"cifar10-vgg16", "cifar100-vgg16", "cifar10-resnet44", "cifar100-resnet44x2"}) {
    const bool vgg = std::string(row).find("vgg16") != std::string::npos;
    EXPECT_EQ(tried.count({row, "lb", vgg ? 1.6 : 3.2}), 1u) << row;
    EXPECT_EQ(tried.count({row, "lb-diag", 1.6}), 1u) << row;
  }
}

/// Recipes, searches and variants of the healthy ground: every file loads, every run resolves.
const std::filesystem::path kHealthy = testing::source_dir() / "recipes/healthy";

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(HealthyRecipes, AndTheirVariantsResolve) {
  Options options;
  options.recipes = kHealthy;
  options.set = {"run.device=cuda", "train.precision=bf16"};  // as they are trained
  std::set<std::string> rows;
  for (const char* item : {"table2", "table3", "variants"}) {
    for (const auto& run : planned_runs(item, options)) {
      rows.insert(std::filesystem::path(run.name).parent_path().string());
      EXPECT_EQ(run.config.data.holdout, 0) << run.name;
      EXPECT_NO_THROW(Schedule(run.config, 50000)) << run.name;
    }
  }
  for (const auto& file : files_in(kHealthy)) EXPECT_EQ(rows.count(file.stem()), 1u) << file << " is no row of a table";
  for (const auto& path : files_in(kHealthy / "variants")) {
    const auto file = read_variant_file(path);
    EXPECT_FALSE(file.variants.empty()) << path;
    for (const auto& row : file.rows) EXPECT_EQ(rows.count(row), 1u) << path << ": " << row << " has no recipe";
  }
  for (const char* folder : {"noise", "free"}) {
    for (const auto& file : files_in(kHealthy / "search" / folder)) {
      for (const auto& point : sweep_points(read_sweep_file(file).value().options))
        EXPECT_EQ(point.runs.front().config.data.holdout, 5000) << file;
    }
  }
}

/// Every row of table 2 has a search: as many settings of the small batch as of the large one, judged on held-out
/// examples, at full length. Settings are compared relative to the base learning rate, the first of the file.
TEST(HealthyRecipes, TheSearchesTryAsManySettingsForBothBatches) {
  std::set<std::string> searched;
  for (const auto& file : files_in(kHealthy / "search")) {
    searched.insert(file.stem());
    using Setting = std::tuple<double, double, double, std::string, double>;
    std::map<std::string, std::vector<Setting>> settings;  // by regime
    std::map<std::string, double> base;
    for (const auto& point : sweep_points(read_sweep_file(file).value().options)) {
      const auto& config = point.runs.front().config;
      const auto& train = config.train;
      EXPECT_EQ(config.data.holdout, 5000) << file;
      EXPECT_EQ(train.epochs, config.data.name.find("mnist") == std::string::npos ? 200 : 50) << file;
      const double first = base.emplace(config.regime, train.lr).first->second;
      settings[config.regime].emplace_back(train.lr / first, train.weight_decay, train.clip_norm, train.schedule,
                                           train.warmup);
    }
    EXPECT_EQ(settings.size(), 2u) << file;
    EXPECT_EQ(settings["sb"], settings["lb"]) << file;
    EXPECT_GE(settings["lb"].size(), 3u) << file;
  }
  for (const auto& row : find_item("table2", false).rows) {
    const auto& name = row.other_recipe.empty() ? row.recipe : row.other_recipe;
    EXPECT_EQ(searched.count(name), 1u) << name;
  }
}

/// Also the recipe that was not written by `covnoise paper ground`.
TEST(HealthyRecipes, ClipNoiseApart) {
  for (const auto& file : files_in(kHealthy)) {
    for (const auto& regime : regime_names()) {
      const auto config = load_config(file, {"regime=" + regime});
      const std::set<std::string> apart = {"lb-diag", "lb-trace", "lb-kfac", "lb-full"};
      EXPECT_EQ(config.noise.clip_norm, apart.count(regime) > 0 ? 4 * config.train.clip_norm : 0)
          << file << " " << regime;
    }
  }
}

/// The learning rate, weight decay, clipping and schedule of a healthy recipe are the best of the row's search.
TEST(HealthyRecipes, HaveTheBestSettingsOfTheirSearch) {
  for (const auto& file : files_in(kHealthy)) {
    const auto search = read_sweep_file(kHealthy / "search" / file.filename()).value();
    const auto table = testing::source_dir() / search.table;
    ASSERT_TRUE(std::filesystem::exists(table)) << file << " states settings that no search has found";
    const auto ranked = collect_sweep(sweep_points(search.options), "none", table).outcomes;
    for (const char* regime : {"sb", "lb"}) {
      const auto best = std::find_if(ranked.begin(), ranked.end(), [&](const SweepOutcome& one) {
        return one.point.runs.front().config.regime == regime && one.ended > 0;
      });
      ASSERT_NE(best, ranked.end()) << file << " " << regime;
      const auto& found = best->point.runs.front().config.train;
      const auto chosen = load_config(file, {std::string("regime=") + regime}).train;
      EXPECT_EQ(chosen.lr, found.lr) << file << " " << regime;
      EXPECT_EQ(chosen.weight_decay, found.weight_decay) << file << " " << regime;
      EXPECT_EQ(chosen.clip_norm, found.clip_norm) << file << " " << regime;
      EXPECT_EQ(chosen.schedule, found.schedule) << file << " " << regime;
    }
  }
}

}  // namespace
}  // namespace covnoise::paper
