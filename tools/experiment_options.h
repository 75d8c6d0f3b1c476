#pragma once
#include "covnoise/experiment/runner.h"

#include <CLI/CLI.hpp>

namespace covnoise {

/// What commands that train many runs have in common.
struct ExperimentArguments {
  std::string out, data_dir;
  std::int64_t jobs = 0;
};

void add_experiment_options(CLI::App& command, ExperimentArguments& arguments);

/// Catches interrupts from now on.
RunnerOptions runner_options(const ExperimentArguments& arguments);

}  // namespace covnoise
