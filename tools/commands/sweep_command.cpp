#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/sweep.h"
#include "experiment_options.h"
#include "number_checks.h"
#include "setting_flags.h"
#include "study_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace covnoise {
namespace {

struct SweepArguments {
  SweepOptions sweep;
  SettingFlags flags;
  std::string file;
  std::filesystem::path table;
  bool plan = false, collect = false;
  std::optional<std::string> earlier;
  ExperimentArguments experiment;
};

void prepend(std::vector<std::string>& list, const std::vector<std::string>& first) {
  list.insert(list.begin(), first.begin(), first.end());
}

/// The command line overrides the sweep file.
void read_file_argument(SweepArguments& arguments, bool out_given) {
  const auto file = read_sweep_file(arguments.file);
  if (!file) {
    arguments.sweep.recipe = arguments.file;
    return;
  }
  arguments.sweep.recipe = file->options.recipe;
  prepend(arguments.sweep.set, file->options.set);
  prepend(arguments.sweep.vary, file->options.vary);
  prepend(arguments.sweep.grids, file->options.grids);
  if (!out_given && !file->out.empty()) arguments.experiment.out = file->out.string();
  if (arguments.table.empty()) arguments.table = file->table;
}

/// The table that stands in for runs that are not available: --earlier, or the saved one if there is one.
EarlierTable earlier_table(const SweepArguments& arguments) {
  if (arguments.earlier) return arguments.earlier;
  const bool saved = !arguments.table.empty() && std::filesystem::exists(arguments.table);
  return saved ? EarlierTable(arguments.table) : std::nullopt;
}

/// Keeps the lines of the saved table for runs that are not available.
SweepResult collect(const SweepArguments& arguments, const std::vector<SweepPoint>& points) {
  require(
      arguments.table.empty() || arguments.sweep.only.empty(),
      fmt::format("--only would remove the other lines of {}: leave it out with --collect", arguments.table.string()));
  return collect_sweep(points, arguments.experiment.out, earlier_table(arguments));
}

std::vector<std::filesystem::path> save(const SweepArguments& arguments, const SweepResult& result) {
  auto paths = save_sweep(result.outcomes, arguments.experiment.out);
  const bool any = std::any_of(result.outcomes.begin(), result.outcomes.end(),
                               [](const SweepOutcome& outcome) { return outcome.ended > 0; });
  if (!arguments.collect || arguments.table.empty() || !any) return paths;
  if (arguments.table.has_parent_path()) create_folders(arguments.table.parent_path());
  write_file_synced(arguments.table, read_file(paths.front()));
  paths.push_back(arguments.table);
  return paths;
}

void run_sweep_command(SweepArguments& arguments, bool out_given) {
  prepend(arguments.sweep.set, settings_of(arguments.flags));
  if (!arguments.file.empty()) read_file_argument(arguments, out_given);
  const auto points = sweep_points(arguments.sweep);
  const auto runner = runner_options(arguments.experiment);
  if (arguments.plan) {
    std::printf("%s", sweep_plan(points, runner.out, earlier_table(arguments)).c_str());
    return;
  }
  const auto result =
      arguments.collect ? collect(arguments, points) : run_sweep(points, runner, earlier_table(arguments));
  print_study(sweep_table(result.outcomes), save(arguments, result));
  refuse_failures(result.failures, warn);
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto arguments = std::make_shared<SweepArguments>();
  auto* command = app.add_subcommand("sweep", "Train over a grid or a random choice of settings, and rank them");
  command->add_option("file", arguments->file,
                      "recipe, or sweep file with a recipe, settings and grids (docs/paper.md)");
  command->add_option("--set", arguments->sweep.set, "key=value, for all runs; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--vary", arguments->sweep.vary,
                   "key=value,value,...; may be repeated. seed=0,1,2: means over seeds")
      ->allow_extra_args(false);
  command
      ->add_option("--grid", arguments->sweep.grids,
                   "'key=value,... key=value,...': a grid of its own, combined with --vary; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--only", arguments->sweep.only, "key=value,value,...: only settings with these; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--random", arguments->sweep.random, "N random settings; key=log:from:to draws from a range")
      ->check(at_least_zero());
  command->add_option("--random-seed", arguments->sweep.seed, "seed of the random settings")->capture_default_str();
  add_setting_flags(*command, arguments->flags,
                    {"model", "data", "regime", "epochs", "batch", "lr", "device", "precision"});
  command->add_flag("--plan,--dry-run", arguments->plan, "list the runs and stop");
  command->add_flag("--collect", arguments->collect, "train nothing: rank the available runs");
  command->add_option(
      "--table", arguments->table,
      "with --collect: save the ranking here as CSV; lines of runs that are not available are kept, and "
      "settings that it lists in full are not trained again");
  command->add_option("--earlier", arguments->earlier,
                      "the sweep.csv of an earlier sweep, used like --table but not written");
  arguments->experiment.out = "runs/sweep";
  add_experiment_options(*command, arguments->experiment);
  command->callback([arguments, command] { run_sweep_command(*arguments, command->count("--out") > 0); });
}

}  // namespace covnoise
