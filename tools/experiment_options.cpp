#include "experiment_options.h"

#include "covnoise/core/internal/progress.h"
#include "interrupt.h"
#include "number_checks.h"

#include <cstdio>

namespace covnoise {

void add_experiment_options(CLI::App& command, ExperimentArguments& arguments) {
  command.add_option("--out", arguments.out, "folder for runs and results")->capture_default_str();
  command.add_option("--data-dir", arguments.data_dir, "folder of the data sets");
  command
      .add_option("--jobs", arguments.jobs,
                  "parallel runs (default: on a GPU 4 with small batches or 2 with large ones; otherwise 1)")
      ->check(above_zero());
  command
      .add_option("--minutes", arguments.minutes,
                  "time for all runs: starts none that would not end in it, by the duration of finished ones, and "
                  "interrupts what still runs then (repeat the command to resume)")
      ->check(above_zero());
}

RunnerOptions runner_options(const ExperimentArguments& arguments) {
  catch_interrupts(
      {"stopping runs after their current step, with checkpoints, and analyses after their current part; a "
       "second signal stops runs within the step",
       "stopping runs within their current step; their last checkpoints stay"});
  RunnerOptions options;
  options.out = arguments.out;
  options.program = std::filesystem::read_symlink("/proc/self/exe");
  options.data_dir = arguments.data_dir;
  options.jobs = arguments.jobs;
  options.minutes = arguments.minutes;
  options.stop_signal = caught_signal;
  options.stop_now = stop_now;
  options.progress_bar = is_terminal();
  options.say = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  return options;
}

}  // namespace covnoise
