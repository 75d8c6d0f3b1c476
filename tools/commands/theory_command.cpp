#include "commands/commands.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/theory/quadratic_study.h"
#include "covnoise/theory/regression.h"
#include "covnoise/theory/stability_study.h"
#include "study_output.h"

#include <fmt/format.h>

#include <memory>

namespace covnoise {
namespace {

using theory::QuadraticOptions;
using theory::QuadraticStudy;
using theory::RegressionOptions;
using theory::RegressionStudy;
using theory::StabilityOptions;
using theory::StabilityStudy;

/// What every study takes besides its own options.
struct TheoryArguments {
  std::string out;
  int threads = 0;
};

void add_theory_options(CLI::App& command, TheoryArguments& common, std::uint64_t& seed) {
  common.out = "runs/theory-" + command.get_name();
  command.add_option("--out", common.out, "folder for numbers and figures")->capture_default_str();
  command.add_option("--seed", seed, "of all random numbers")->capture_default_str();
  command.add_option("--threads", common.threads, "0: all processors")->capture_default_str();
}

/// A folder that cannot be made is found out before the work, not after it.
void begin(const TheoryArguments& common) {
  set_threads(common.threads);
  create_folders(common.out);
}

void add_quadratic(CLI::App& theory) {
  auto* command = theory.add_subcommand("quadratic", "Convex quadratic: theorem, table 1 and figure 4 of the paper");
  auto options = std::make_shared<QuadraticOptions>();
  auto common = std::make_shared<TheoryArguments>();
  auto* matrix = command->add_option("--matrix", options->matrix, "file with A (CSV or safetensors)");
  auto* spectrum =
      command->add_option("--spectrum", options->spectrum, "eigenvalues 3,1,0.5 or log:min:max, rotated at random");
  auto* dimension = command->add_option("--dimension", options->dimension, "of a log: spectrum")->capture_default_str();
  auto* condition = command->add_option("--condition", options->condition, "eigenvalues from 1/condition to 1")
                        ->capture_default_str();
  matrix->excludes(spectrum)->excludes(dimension)->excludes(condition);
  spectrum->excludes(condition);
  command->add_option("--noise", options->noise, "none, isotropic, full, diagonal or files with C")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--rate", options->rate, "theorem (decaying steps) or a number (constant steps)")
      ->capture_default_str();
  command->add_option("--alpha0", options->alpha_0, "largest step of the theorem; 0: 1/lambda_max")
      ->capture_default_str();
  command->add_option("--initial-loss", options->initial_loss, "loss at the start")->capture_default_str();
  command->add_option("--iterations", options->iterations, "simulated steps")->capture_default_str();
  command->add_option("--trajectories", options->trajectories, "simulated in parallel")->capture_default_str();
  command->add_option("--horizon", options->horizon, "steps of the exact recursion")->capture_default_str();
  command->add_option("--error", options->errors, "errors to reach (default: 1/10, 1/100, 1/1000 of the initial loss)")
      ->delimiter(',');
  add_theory_options(*command, *common, options->seed);
  command->callback([options, common] {
    begin(*common);
    const QuadraticStudy study = study_quadratic(*options);
    print_study(quadratic_table(study), save_study(study, common->out));
  });
}

void add_regression(CLI::App& theory) {
  auto* command = theory.add_subcommand("regression", "Two-dimensional regression, one step: figure 1 of the paper");
  auto options = std::make_shared<RegressionOptions>();
  auto common = std::make_shared<TheoryArguments>();
  command->add_option("--examples", options->examples, "in the data set")->capture_default_str();
  command->add_option("--small-batch", options->small_batch, "batch of the SGD steps")->capture_default_str();
  command->add_option("--rate", options->alpha, "step size")->capture_default_str();
  command->add_option("--sigma", options->sigma, "of the isotropic noise")->capture_default_str();
  command->add_option("--residual", options->residual, "standard deviation of y around the line")
      ->capture_default_str();
  command->add_option("--points", options->points, "of each cloud")->capture_default_str();
  command->add_option("--start", options->start, "where the step begins")->delimiter(',')->capture_default_str();
  add_theory_options(*command, *common, options->seed);
  command->callback([options, common] {
    begin(*common);
    const RegressionStudy study = study_regression(*options);
    print_study(regression_table(study), save_study(study, common->out));
  });
}

void add_stability(CLI::App& theory) {
  auto* command =
      theory.add_subcommand("stability", "Two data sets that differ in one example: the appendix on stability");
  auto options = std::make_shared<StabilityOptions>();
  auto common = std::make_shared<TheoryArguments>();
  auto* data = command->add_option("--data", options->data, "file with X, one example a row (CSV or safetensors)");
  for (auto* own : {command->add_option("--examples", options->examples, "Gaussian ones"),
                    command->add_option("--dimension", options->dimension, "of the examples")}) {
    data->excludes(own->capture_default_str());
  }
  data->excludes(command->add_option("--condition", options->condition, "of their covariance")->capture_default_str());
  command->add_option("--replacements", options->replacements, "new examples, each in the place of each old one")
      ->capture_default_str();
  command->add_option("--alpha", options->alpha, "step size that scales the noise")->capture_default_str();
  command->add_option("--start", options->start, "length of theta(0)")->capture_default_str();
  command->add_option("--lambda", options->lambdas, "factors of the noise")->delimiter(',')->capture_default_str();
  command->add_option("--last-time", options->last_time, "end of the curves")->capture_default_str();
  command->add_option("--simulate-until", options->simulate_until, "end of the simulation")->capture_default_str();
  command->add_option("--dt", options->process.dt, "of the simulation; alpha: the algorithm itself")
      ->capture_default_str();
  command->add_option("--trajectories", options->process.trajectories, "simulated")->capture_default_str();
  add_theory_options(*command, *common, options->seed);
  command->callback([options, common] {
    begin(*common);
    const StabilityStudy study = study_stability(*options);
    print_study(stability_table(study), save_study(study, common->out));
  });
}

}  // namespace

void add_theory_command(CLI::App& app) {
  auto* theory = app.add_subcommand("theory", "The paper's theory, computed: numbers and figures");
  theory->require_subcommand(1);
  add_quadratic(*theory);
  add_regression(*theory);
  add_stability(*theory);
}

}  // namespace covnoise
