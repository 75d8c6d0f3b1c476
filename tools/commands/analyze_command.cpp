#include "commands/commands.h"
#include "covnoise/analysis/fisher.h"
#include "covnoise/analysis/frobenius.h"
#include "covnoise/analysis/hessian_study.h"
#include "covnoise/analysis/variance.h"
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/progress.h"
#include "covnoise/core/threads.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/internal/split.h"
#include "covnoise/train/internal/stored_run.h"
#include "covnoise/train/trainer.h"
#include "number_checks.h"
#include "study_output.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace covnoise {
namespace {

/// Options common to all analyses.
struct AnalyzeArguments {
  std::vector<std::string> runs;
  std::string out, data_dir, mode = "eval", device = "cpu";
  std::int64_t step = -1;
  int threads = 0;
  bool allow_older = false;

  std::filesystem::path run() const { return runs.front(); }
  /// The run's folder, or a separate one for several runs.
  std::filesystem::path folder(const char* several) const {
    if (!out.empty()) return out;
    return runs.size() == 1 ? run() : std::filesystem::path(several);
  }
};

using Arguments = std::shared_ptr<AnalyzeArguments>;

TrainedModel load(const AnalyzeArguments& arguments, const std::string& run) {
  // With --step, the last checkpoint is not the one that is analysed.
  const bool older = arguments.allow_older || arguments.step >= 0;
  auto trained = load_for_analysis(run, known_data_sets({arguments.data_dir}), warn, arguments.device,
                                   older ? IfDamaged::kUseOlder : IfDamaged::kRefuse);
  if (arguments.step >= 0) load_step(trained, run, arguments.step, warn);
  return trained;
}

void add_common(CLI::App& command, const Arguments& arguments, bool several) {
  auto* runs = command.add_option("run", arguments->runs, several ? "folders of runs" : "the run's folder")->required();
  if (!several) runs->expected(1);
  command.add_option("--out", arguments->out, "output folder (default: the run's)");
  command.add_flag("--allow-older", arguments->allow_older,
                   "use the newest intact checkpoint if the last one is damaged");
  command.add_option("--data-dir", arguments->data_dir, "folder of the data sets");
  command.add_option("--threads", arguments->threads, "number of threads; 0: all processors");
  command.add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
}

void add_step(CLI::App& command, const Arguments& arguments) {
  command
      .add_option("--step", arguments->step, "step of a snapshot (train.snapshot_every) to use instead of the last one")
      ->check(at_least_zero());
}

void add_mode(CLI::App& command, const Arguments& arguments) {
  command.add_option("--mode", arguments->mode, "normalisation: eval (running statistics) or train (ghost batches)")
      ->check(CLI::IsMember({"eval", "train"}))
      ->capture_default_str();
}

void fisher(const AnalyzeArguments& arguments, std::int64_t examples) {
  set_threads(arguments.threads);
  auto trained = load(arguments, arguments.runs.front());
  const Split split = make_split(trained.source, trained.config);
  FisherOptions options;
  options.examples = examples;
  options.training_mode = arguments.mode == "train";
  options.ghost_batch = trained.config.train.ghost_batch;
  const auto result = fisher_diagonal(*trained.model, split.train, options);
  TensorFile file;
  for (const auto& [name, tensor] : result.gradient) file.tensors.emplace_back("grad." + name, tensor);
  for (const auto& [name, tensor] : result.diagonal) file.tensors.emplace_back("fisher." + name, tensor);
  file.metadata = {
      {"examples", std::to_string(result.examples)}, {"mode", arguments.mode}, {"step", std::to_string(trained.step)}};
  const auto out = arguments.folder("");
  create_folders(out);
  write_safetensors(out / "fisher.safetensors", file);
  std::printf("%s\n", fmt::format("loss {:.6g}  Tr F {:.6g}  over {} training examples, step {}: {}", result.loss,
                                  result.trace, result.examples, trained.step, (out / "fisher.safetensors").string())
                          .c_str());
}

void variance(const AnalyzeArguments& arguments, const VarianceOptions& options) {
  set_threads(arguments.threads);
  auto trained = load(arguments, arguments.runs.front());
  const auto out = arguments.folder("");
  create_folders(out);
  const Split split = make_split(trained.source, trained.config);
  std::unique_ptr<ProgressBar> bar;
  auto study =
      study_variance(trained.config, *trained.model, split.train, options, [&](std::int64_t done, std::int64_t total) {
        if (!bar) bar = std::make_unique<ProgressBar>(total, "gradient variance");
        bar->update(done);
      });
  if (bar) bar->clear();
  study.step = trained.step;
  print_study(variance_table(study), save_study(study, out));
}

void frobenius(const AnalyzeArguments& arguments, const FrobeniusOptions& options, std::vector<std::int64_t> steps) {
  set_threads(arguments.threads);
  auto trained = load(arguments, arguments.runs.front());
  const auto out = arguments.folder("");
  create_folders(out);
  const Split split = make_split(trained.source, trained.config);
  if (steps.empty()) steps = kept_steps(arguments.run());
  FrobeniusStudy study{options, trained.config.model, trained.config.data.name, trained.config.regime, {}};
  study.options.training_mode = arguments.mode == "train";
  const std::int64_t ghost = trained.config.train.ghost_batch;
  if (study.options.training_mode && ghost > 0 && options.examples % ghost != 0) {
    throw Error(fmt::format("--examples {} is not a multiple of the ghost batch, {}", options.examples, ghost));
  }
  ProgressBar bar(static_cast<std::int64_t>(steps.size()), "Frobenius norms");
  for (const std::int64_t step : steps) {
    load_step(trained, arguments.run(), step, warn);
    study.points.push_back(frobenius_point(*trained.model, split.train, study.options));
    study.points.back().step = step;
    bar.update(static_cast<std::int64_t>(study.points.size()));
  }
  bar.clear();
  print_study(frobenius_table(study), save_study(study, out));
}

void hessian(const AnalyzeArguments& arguments, const HessianOptions& options) {
  set_threads(arguments.threads);
  for (const auto& run : arguments.runs) StoredRun{run};  // refuses what is none, before hours of work
  const auto out = arguments.folder("runs/analysis-hessian");
  create_folders(out);
  HessianStudy study{options, {}};
  ProgressBar bar(static_cast<std::int64_t>(arguments.runs.size()) * options.lanczos.iterations, "Hessian");
  for (std::size_t i = 0; i < arguments.runs.size(); ++i) {
    auto trained = load(arguments, arguments.runs[i]);
    std::int64_t iterations = static_cast<std::int64_t>(i) * options.lanczos.iterations;
    study.results.push_back(hessian_of(trained, options, [&](const std::string& text) {
      bar.update(++iterations, fmt::format("run {}/{}  {}", i + 1, arguments.runs.size(), text));
    }));
    study.results.back().run = arguments.runs[i];
  }
  bar.clear();
  print_study(hessian_table(study), save_study(study, out));
}

void add_fisher(CLI::App& analyze) {
  auto* command =
      analyze.add_subcommand("fisher", "Gradient and Fisher diagonal of the last checkpoint, as safetensors");
  auto arguments = std::make_shared<AnalyzeArguments>();
  auto examples = std::make_shared<std::int64_t>(0);
  add_common(*command, arguments, false);
  add_step(*command, arguments);
  add_mode(*command, arguments);
  command->add_option("--examples", *examples, "the first N training examples (default: all)")->check(at_least_zero());
  command->callback([=] { fisher(*arguments, *examples); });
}

void add_variance(CLI::App& analyze) {
  auto* command = analyze.add_subcommand("variance", "Gradient variance by layer and regime: figure 2 of the paper");
  auto arguments = std::make_shared<AnalyzeArguments>();
  auto options = std::make_shared<VarianceOptions>();
  add_common(*command, arguments, false);
  add_step(*command, arguments);
  command
      ->add_option("--regimes", options->regimes, "regimes; lb-diag:exact selects an estimator (default: by network)")
      ->delimiter(',');
  command
      ->add_option(
          "--samples", options->samples,
          "samples per regime, a multiple of 8 and at least 16; sb has large batch / small batch times as many")
      ->capture_default_str();
  command->add_option("--small-batch", options->small_batch, "batch size of sb, and ghost batch")
      ->capture_default_str();
  command->add_option("--large-batch", options->large_batch, "batch size of all other regimes")->capture_default_str();
  command->add_option("--seed", options->seed, "seed of all random numbers")->capture_default_str();
  command->callback([=] { variance(*arguments, *options); });
}

void add_frobenius(CLI::App& analyze) {
  auto* command = analyze.add_subcommand(
      "frobenius", "Frobenius norms of the Fisher matrix and its diagonal along a run: figure 5a of the paper");
  auto arguments = std::make_shared<AnalyzeArguments>();
  auto options = std::make_shared<FrobeniusOptions>();
  auto steps = std::make_shared<std::vector<std::int64_t>>();
  add_common(*command, arguments, false);
  add_mode(*command, arguments);
  command->add_option("--steps", *steps, "steps of snapshots (default: all; train.snapshot_every keeps more)")
      ->delimiter(',');
  command->add_option("--examples", options->examples, "examples per batch")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--batches", options->batches, "number of independent batches")->capture_default_str();
  command->add_option("--seed", options->seed, "seed of the choice of examples")->capture_default_str();
  command->callback([=] { frobenius(*arguments, *options, *steps); });
}

void add_hessian(CLI::App& analyze) {
  auto* command = analyze.add_subcommand(
      "hessian", "Largest eigenvalues of the Hessian of one or more runs: figure 5b of the paper");
  auto arguments = std::make_shared<AnalyzeArguments>();
  auto options = std::make_shared<HessianOptions>();
  add_common(*command, arguments, true);
  add_step(*command, arguments);
  command->add_option("--split", options->split, "split whose loss is analysed: train or test")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  command->add_option("--examples", options->examples, "use the first N examples; 0: all (default: 2000)")
      ->check(at_least_zero());
  command->add_option("--top", options->lanczos.count, "number of eigenvalues")->capture_default_str();
  command->add_option("--tolerance", options->lanczos.tolerance, "relative tolerance of the residual")
      ->capture_default_str();
  command->add_option("--iterations", options->lanczos.iterations, "maximum number of iterations")
      ->capture_default_str();
  command->add_option("--density", options->density, "random starting vectors of a spectral density; 0: no density")
      ->check(at_least_zero())
      ->capture_default_str();
  command->add_option("--density-steps", options->density_steps, "Lanczos steps per starting vector")
      ->capture_default_str();
  command
      ->add_option("--memory", options->memory,
                   "GiB for graphs kept between products (default: half of the free memory)")
      ->check(at_least_zero());
  command->add_option("--seed", options->lanczos.seed, "seed of the starting vector")->capture_default_str();
  command->callback([=] { hessian(*arguments, *options); });
}

}  // namespace

void add_analyze_command(CLI::App& app) {
  auto* analyze = app.add_subcommand("analyze", "Analyse the network of a run: numbers and figures");
  analyze->require_subcommand(1);
  add_fisher(*analyze);
  add_variance(*analyze);
  add_frobenius(*analyze);
  add_hessian(*analyze);
}

}  // namespace covnoise
