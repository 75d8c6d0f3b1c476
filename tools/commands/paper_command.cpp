#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/experiment/internal/paper.h"
#include "experiment_options.h"
#include "seed_list.h"
#include "study_output.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>

namespace covnoise {
namespace {

struct PaperArguments {
  std::string item, recipes, results, device;
  std::optional<std::string> seeds;  // "0-2,5"
  paper::Options options;
  ExperimentArguments experiment;
  bool plan = false, collect = false;
};

/// Small runs are trained in parallel; a large run has the machine to itself.
void settle(PaperArguments& arguments, bool jobs_given) {
  auto& experiment = arguments.experiment;
  if (experiment.out.empty()) experiment.out = arguments.options.quick ? "runs/paper-quick" : "runs/paper";
  if (arguments.options.quick && !jobs_given) experiment.jobs = available_processors();
  if (!arguments.device.empty()) arguments.options.set.push_back("run.device=" + arguments.device);
  if (arguments.seeds) arguments.options.seeds = seeds_of(*arguments.seeds);
  arguments.options.recipes = arguments.recipes;
  arguments.options.results = arguments.results;
  arguments.options.train = !arguments.collect;
  arguments.options.runner = runner_options(experiment);
}

void run_paper(PaperArguments& arguments, bool jobs_given) {
  if (arguments.item.empty()) throw Error("paper needs an item; covnoise paper --help lists them", 2);
  settle(arguments, jobs_given);
  if (arguments.plan) {
    std::printf("%s", paper::plan_table(arguments.item, arguments.options).c_str());
    return;
  }
  set_threads(0);
  const auto outcome = paper::reproduce(arguments.item, arguments.options);
  print_study(outcome.table, outcome.paths);
  refuse_failures(outcome.failures, warn);
}

void add_documents(CLI::App& command) {
  auto results = std::make_shared<std::string>("results"), file = std::make_shared<std::string>("docs/results.md");
  auto* docs = command.add_subcommand("docs", "Fill in the generated parts of a document and of its pages");
  docs->add_option("--results", *results, "folder of results")->capture_default_str();
  docs->add_option("--write", *file, "the document; its pages are the *.md of the folder with its name")
      ->capture_default_str();
  docs->callback([results, file] {
    const auto changed = paper::fill_documents(*file, *results);
    for (const auto& path : changed) std::printf("%s: written\n", path.c_str());
    if (changed.empty()) std::printf("%s: nothing changed\n", file->c_str());
  });
}

void add_recipes(CLI::App& command) {
  auto folder = std::make_shared<std::string>();
  auto* recipes = command.add_subcommand("recipes", "Write the recipes as files, to edit and pass with --recipes");
  recipes->add_option("folder", *folder, "folder to write to")->required();
  recipes->callback([folder] {
    for (const auto& path : paper::write_recipes(*folder)) std::printf("%s\n", path.c_str());
  });
}

void add_ground(CLI::App& command) {
  auto search = std::make_shared<std::string>(), recipe = std::make_shared<std::string>();
  auto* ground = command.add_subcommand("ground", "Write a recipe with the best settings of a finished search");
  ground->add_option("search", *search, "sweep file, such as recipes/healthy/search/mnist-f1.toml")->required();
  ground->add_option("recipe", *recipe, "file to write, such as recipes/healthy/mnist-f1.toml")->required();
  ground->callback([search, recipe] {
    const bool written = paper::write_ground(*search, *recipe);
    std::printf("%s: %s\n", recipe->c_str(), written ? "written" : "nothing changed");
  });
}

}  // namespace

void add_paper_command(CLI::App& app) {
  auto arguments = std::make_shared<PaperArguments>();
  auto* command = app.add_subcommand("paper", "Reproduce a table or figure of the paper");
  command->footer("Items:\n" + paper::describe_items());
  command->add_option("item", arguments->item, "table1, ... (see below)");
  command->add_flag("--quick", arguments->options.quick, "small version on embedded data: about a minute on two cores");
  command->add_flag("--plan,--dry-run", arguments->plan, "list the runs and stop");
  command->add_flag("--collect", arguments->collect, "train nothing: report the available runs");
  command->add_option("--seeds", arguments->seeds, "seeds to train, e.g. 0-2 or 0,1,5");
  command->add_option("--rows", arguments->options.rows, "train only these rows, e.g. cifar10-resnet44")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--regimes", arguments->options.regimes, "train only these regimes")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--set", arguments->options.set, "key=value, for all runs; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--device", arguments->device, "short for --set run.device=...");
  command->add_option(
      "--recipes", arguments->recipes,
      "folder with recipes to use instead of the built-in ones; rows that have none there are left out");
  command->add_option("--results", arguments->results,
                      "folder whose tables, figures and records are read and written (default: results/ in --out)");
  command->add_option("--scale", arguments->options.scale, "factor of epochs and examples, for tests")
      ->check(CLI::Range(0.01, 1.0))
      ->group("");
  add_experiment_options(*command, arguments->experiment);
  command->get_option("--out")->description(
      "folder for runs/ and logs/, and for results/ unless --results is given (default runs/paper, quick: "
      "runs/paper-quick)");
  add_documents(*command);
  add_recipes(*command);
  add_ground(*command);
  command->callback([arguments, command] {
    if (command->get_subcommands().empty()) run_paper(*arguments, command->count("--jobs") > 0);
  });
}

}  // namespace covnoise
