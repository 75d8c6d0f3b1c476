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

/// Options common to all studies.
struct TheoryArguments {
  std::string out;
  int threads = 0;
};

void add_theory_options(CLI::App& command, TheoryArguments& common, std::uint64_t& seed) {
  common.out = "runs/theory-" + command.get_name();
  command.add_option("--out", common.out, "output folder")->capture_default_str();
  command.add_option("--seed", seed, "seed of all random numbers")->capture_default_str();
  command.add_option("--threads", common.threads, "number of threads; 0: all processors")->capture_default_str();
}

/// Creates the folder first: if that fails, no work is lost.
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
  auto* dimension =
      command->add_option("--dimension", options->dimension, "dimension of a log: spectrum")->capture_default_str();
  auto* condition = command->add_option("--condition", options->condition, "eigenvalues from 1/condition to 1")
                        ->capture_default_str();
  matrix->excludes(spectrum)->excludes(dimension)->excludes(condition);
  spectrum->excludes(condition);
  command->add_option("--noise", options->noise, "noise: none, isotropic, full, diagonal or files with C")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--rate", options->rate, "theorem (decaying steps) or a number (constant steps)")
      ->capture_default_str();
  command->add_option("--alpha0", options->alpha_0, "largest step of the theorem; 0: 1/lambda_max")
      ->capture_default_str();
  command->add_option("--initial-loss", options->initial_loss, "loss at the start")->capture_default_str();
  command->add_option("--iterations", options->iterations, "simulated steps")->capture_default_str();
  command->add_option("--trajectories", options->trajectories, "number of simulated trajectories")
      ->capture_default_str();
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
  command->add_option("--examples", options->examples, "number of examples")->capture_default_str();
  command->add_option("--small-batch", options->small_batch, "batch size of the SGD steps")->capture_default_str();
  command->add_option("--rate", options->alpha, "step size")->capture_default_str();
  command->add_option("--sigma", options->sigma, "standard deviation of the isotropic noise")->capture_default_str();
  command->add_option("--residual", options->residual, "standard deviation of y around the line")
      ->capture_default_str();
  command->add_option("--points", options->points, "points per cloud")->capture_default_str();
  command->add_option("--start", options->start, "starting point of the step")->delimiter(',')->capture_default_str();
  add_theory_options(*command, *common, options->seed);
  command->callback([options, common] {
    begin(*common);
    const RegressionStudy study = study_regression(*options);
    print_study(regression_table(study), save_study(study, common->out));
  });
}

void add_stability(CLI::App& theory) {
  auto* command =
      theory.add_subcommand("stability", "Two data sets that differ in one example: the stability appendix");
  auto options = std::make_shared<StabilityOptions>();
  auto common = std::make_shared<TheoryArguments>();
  auto* data = command->add_option("--data", options->data, "file with X, one example per row (CSV or safetensors)");
  for (auto* own : {command->add_option("--examples", options->examples, "number of Gaussian examples"),
                    command->add_option("--dimension", options->dimension, "dimension of the examples")}) {
    data->excludes(own->capture_default_str());
  }
  data->excludes(command->add_option("--condition", options->condition, "condition number of their covariance")
                     ->capture_default_str());
  command
      ->add_option("--replacements", options->replacements,
                   "number of new examples; each replaces each old one in turn")
      ->capture_default_str();
  command->add_option("--alpha", options->alpha, "step size that scales the noise")->capture_default_str();
  command->add_option("--start", options->start, "length of theta(0)")->capture_default_str();
  command->add_option("--lambda", options->lambdas, "noise factors")->delimiter(',')->capture_default_str();
  command->add_option("--last-time", options->last_time, "end time of the curves")->capture_default_str();
  command->add_option("--simulate-until", options->simulate_until, "end time of the simulation")->capture_default_str();
  command->add_option("--dt", options->process.dt, "time step of the simulation; alpha: the algorithm itself")
      ->capture_default_str();
  command->add_option("--trajectories", options->process.trajectories, "number of simulated trajectories")
      ->capture_default_str();
  add_theory_options(*command, *common, options->seed);
  command->callback([options, common] {
    begin(*common);
    const StabilityStudy study = study_stability(*options);
    print_study(stability_table(study), save_study(study, common->out));
  });
}

}  // namespace

void add_theory_command(CLI::App& app) {
  auto* theory = app.add_subcommand("theory", "Compute the paper's theory: numbers and figures");
  theory->require_subcommand(1);
  add_quadratic(*theory);
  add_regression(*theory);
  add_stability(*theory);
}

}  // namespace covnoise
