#include "commands/commands.h"
#include "covnoise/core/internal/progress.h"
#include "covnoise/experiment/sweep.h"
#include "experiment_options.h"
#include "number_checks.h"
#include "study_output.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace covnoise {
namespace {

struct SweepArguments {
  SweepOptions sweep;
  std::string recipe, device;
  bool plan = false, collect = false;
  std::optional<std::string> earlier;
  ExperimentArguments experiment;
};

void run_sweep_command(SweepArguments& arguments) {
  if (!arguments.recipe.empty()) arguments.sweep.recipe = arguments.recipe;
  if (!arguments.device.empty()) arguments.sweep.set.push_back("run.device=" + arguments.device);
  const auto points = sweep_points(arguments.sweep);
  const auto runner = runner_options(arguments.experiment);
  if (arguments.plan) {
    std::printf("%s", sweep_plan(points, runner.out, arguments.earlier).c_str());
    return;
  }
  const auto result = arguments.collect ? collect_sweep(points, runner.out, arguments.earlier)
                                        : run_sweep(points, runner, arguments.earlier);
  print_study(sweep_table(result.outcomes), save_sweep(result.outcomes, runner.out));
  refuse_failures(result.failures, runner.say);
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto arguments = std::make_shared<SweepArguments>();
  auto* command = app.add_subcommand("sweep", "Train over a grid or a random choice of settings, and rank them");
  command->add_option("recipe", arguments->recipe, "TOML file");
  command->add_option("--set", arguments->sweep.set, "key=value, for all runs; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--vary", arguments->sweep.vary,
                   "key=value,value,...; may be repeated. seed=0,1,2: means over seeds")
      ->allow_extra_args(false);
  command
      ->add_option("--grid", arguments->sweep.grids,
                   "'key=value,... key=value,...': a grid of its own; may be repeated, each is varied by --vary too")
      ->allow_extra_args(false);
  command->add_option("--random", arguments->sweep.random, "N random settings; key=log:from:to draws from a range")
      ->check(at_least_zero());
  command->add_option("--random-seed", arguments->sweep.seed, "of the random settings")->capture_default_str();
  command->add_option("--device", arguments->device, "short for --set run.device=...");
  command->add_flag("--plan,--dry-run", arguments->plan, "list the runs and stop");
  command->add_flag("--collect", arguments->collect, "train nothing: rank what is there");
  command->add_option("--earlier", arguments->earlier,
                      "a sweep.csv whose lines stand in for runs that are not there: what it has is not trained again");
  arguments->experiment.out = "runs/sweep";
  add_experiment_options(*command, arguments->experiment);
  command->callback([arguments] { run_sweep_command(*arguments); });
}

}  // namespace covnoise
