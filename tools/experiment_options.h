#pragma once
#include "covnoise/experiment/runner.h"

#include <CLI/CLI.hpp>

namespace covnoise {

/// Options common to the commands that train many runs.
struct ExperimentArguments {
  std::string out, data_dir;
  std::int64_t jobs = 0;
  double minutes = 0;
};

void add_experiment_options(CLI::App& command, ExperimentArguments& arguments);

/// Catches interrupts from now on.
RunnerOptions runner_options(const ExperimentArguments& arguments);

}  // namespace covnoise
