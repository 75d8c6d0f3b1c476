#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/core/internal/mean_std.h"
#include "covnoise/core/internal/progress.h"
#include "covnoise/core/threads.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/distributed/communicator.h"
#include "covnoise/ops/device.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/trainer.h"
#include "experiment_options.h"
#include "interrupt.h"
#include "number_checks.h"
#include "seed_list.h"
#include "setting_flags.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace covnoise {
namespace {

struct TrainArguments {
  std::string recipe, out, data_dir, resume;
  std::vector<std::string> set;
  SettingFlags flags;
  std::optional<std::string> seeds;  // "0-2,5": runs in parallel
  bool deterministic = false, init_partial = false, dry_run = false, help_keys = false, quiet = false;
  double timeout = 600;
};

void print_line(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::vector<std::string> overrides(const TrainArguments& arguments) {
  std::vector<std::string> list = settings_of(arguments.flags);
  if (arguments.deterministic) list.emplace_back("run.deterministic=true");
  if (arguments.init_partial) list.emplace_back("train.init_partial=true");
  list.insert(list.end(), arguments.set.begin(), arguments.set.end());
  return list;
}

TrainOptions options_of(const TrainArguments& arguments) {
  TrainOptions options;
  const auto list = overrides(arguments);
  if (!arguments.resume.empty()) {
    const RunFolder folder{arguments.resume};
    if (!std::filesystem::exists(folder.config())) {
      throw Error(fmt::format("--resume {}: not a run: it has no config.toml", arguments.resume));
    }
    for (const auto& item : list) {
      if (item.rfind("run.", 0) != 0 && item.rfind("train.epochs=", 0) != 0)
        throw Error(fmt::format("--resume takes its configuration from the run; leave out {}", item));
    }
    options.config = read_config(folder.config(), list);  // device, threads and epochs may differ
    options.out = arguments.resume;
    if (!arguments.recipe.empty() || !arguments.out.empty())
      throw Error("--resume cannot be combined with a recipe or --out");
    return options;
  }
  const auto recipe = arguments.recipe.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.recipe);
  options.config = load_config(recipe, list);
  resolve_defaults(options.config);
  check_config(options.config);
  options.out = arguments.out.empty() ? default_run_name(options.config) : std::filesystem::path(arguments.out);
  return options;
}

void report(const std::filesystem::path& out) {
  const auto records = read_metrics(out);
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->value("kind", "") != "epoch" || !record->contains("test_accuracy")) continue;
    print_line(fmt::format("test accuracy {:.2f} %  (epoch {}; everything is in {})",
                           100 * record->value("test_accuracy", 0.0), record->value("epoch", std::int64_t{0}),
                           out.string()));
    return;
  }
}

/// One run per seed, all at once, each in its own process: several runs share a GPU that one does not fill.
void run_seeds(const TrainArguments& arguments, const std::vector<std::uint64_t>& seeds) {
  require(arguments.resume.empty(),
          "--seeds cannot be combined with --resume: repeat the command to resume unfinished runs");
  const auto ranks = rank_info_of(process_environment());
  require(!ranks || ranks->size == 1,
          "--seeds starts processes of its own: leave it out where a launcher starts several");
  for (const auto& setting : overrides(arguments))
    require(setting.rfind("seed=", 0) != 0,
            fmt::format("--seeds {} and {}: give one of them", *arguments.seeds, setting));
  std::vector<RunSpec> specs;
  for (const std::uint64_t seed : seeds) {
    TrainArguments one = arguments;
    one.set.push_back(fmt::format("seed={}", seed));
    const TrainOptions options = options_of(one);
    specs.push_back({default_run_name(options.config).filename().string(), options.config});
  }
  ExperimentArguments experiment;
  experiment.out = arguments.out.empty() ? "." : arguments.out;
  experiment.data_dir = arguments.data_dir;
  experiment.jobs = static_cast<std::int64_t>(specs.size());
  auto runner = runner_options(experiment);
  runner.logs = runner.out / "runs" / "logs";
  const auto results = run_all(specs, runner);
  refuse_failures(failures_of(results), warn);
  std::vector<double> accuracies;
  for (const auto& result : results)
    if (result.summary->test_accuracy) accuracies.push_back(100 * *result.summary->test_accuracy);
  if (accuracies.empty()) return print_line("no run has a test accuracy");
  const MeanStd spread = mean_std_of(accuracies);
  print_line(
      fmt::format("test accuracy {:.2f} +- {:.2f} %  (mean and standard deviation of {} seeds; everything is in {})",
                  spread.mean, spread.deviation, accuracies.size(),
                  (std::filesystem::path(experiment.out) / "runs").lexically_normal().string()));
}

/// Connects to the other processes if a launcher started several. (A single rank counts only if asked for.)
std::unique_ptr<Communicator> join_others(TrainOptions& options, double timeout) {
  const auto info = rank_info_of(process_environment());
  if (!info || (info->size == 1 && !std::getenv("COVNOISE_ONE_RANK"))) return nullptr;
  std::signal(SIGPIPE, SIG_IGN);  // so that writing to a killed rank's socket fails, and our error names the rank
  auto& device = options.config.run.device;
  if (device == "cuda") device = fmt::format("cuda:{}", info->local_rank);
  CommunicatorOptions communication;
  communication.device = device_of(device);
  communication.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * timeout));
  communication.caught_signal = caught_signal;
  communication.stop_now = stop_now;
  return std::make_unique<Communicator>(*info, communication);
}

/// All ranks would print the same: only rank 0 prints.
Outcome train_as_rank(TrainOptions options, Communicator& communicator) {
  options.communicator = &communicator;
  if (communicator.rank() != 0) {
    options.say = [](const std::string&) {};
    options.progress_bar = false;
  } else {
    options.say(fmt::format("{} ranks", communicator.size()));
  }
  try {
    const Outcome outcome = train(options);
    if (outcome != Outcome::kStoppedNow) communicator.leave();  // the others may be anywhere in their step
    return outcome;
  } catch (const LostRank&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("rank {}: {}", communicator.rank(), error.what()), error.exit_code());
  }
}

/// Of several ranks only rank 0 answers.
void answer_interrupts() {
  const auto info = rank_info_of(process_environment());
  if (info && info->rank != 0) return catch_interrupts({nullptr, nullptr});
  catch_interrupts({"stopping after this step, with a checkpoint; a second signal stops within the step, without one",
                    "stopping within this step; the last checkpoint stays"});
}

void run_train(const TrainArguments& arguments) {
  if (arguments.help_keys) return print_line(describe_keys());
  const auto seeds = arguments.seeds ? seeds_of(*arguments.seeds) : std::vector<std::uint64_t>();
  if (!seeds.empty() && !arguments.dry_run) return run_seeds(arguments, seeds);
  TrainOptions options = options_of(arguments);
  if (arguments.dry_run) return print_line(to_toml(options.config));
  set_threads(static_cast<int>(options.config.run.threads));
  options.data = known_data_sets({arguments.data_dir});
  options.stop_requested = [] { return caught_signal() != 0; };
  options.stop_now = stop_now;
  if (!arguments.quiet) options.say = print_line;
  options.progress_bar = is_terminal() && !arguments.quiet;
  answer_interrupts();
  const auto communicator = join_others(options, arguments.timeout);
  const Outcome outcome = communicator ? train_as_rank(options, *communicator) : train(options);
  if (outcome == Outcome::kInterrupted || outcome == Outcome::kStoppedNow) {
    const int signal = caught_signal() != 0 ? caught_signal() : SIGTERM;  // another rank caught it
    throw Error(fmt::format("{}; to resume{}, repeat the command or run covnoise train --resume {}",
                            outcome == Outcome::kInterrupted ? "interrupted" : "stopped within a step",
                            outcome == Outcome::kInterrupted ? "" : " from the last checkpoint", options.out.string()),
                128 + signal);
  }
  if (communicator && communicator->rank() != 0) return;
  if (outcome == Outcome::kFinishedBefore) print_line(fmt::format("{} is already finished", options.out.string()));
  report(options.out);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  auto* command = app.add_subcommand("train", "Train a network, or resume an interrupted run");
  command->add_option("recipe", arguments->recipe, "recipe (TOML file); --set can set any of its keys as well");
  command->add_option("--set", arguments->set, "key=value, e.g. train.lr=0.2; may be repeated")
      ->allow_extra_args(false);
  add_setting_flags(
      *command, arguments->flags,
      {"model", "data", "regime", "epochs", "batch", "lr", "init", "seed", "threads", "device", "precision"});
  command->add_option("--seeds", arguments->seeds,
                      "e.g. 0-2 or 0,1,5: one run per seed, in parallel, in OUT/runs/ with logs in OUT/runs/logs/");
  command->add_flag("--init-partial", arguments->init_partial,
                    "short for --set train.init_partial=true: the tensors of --init that match, the others drawn");
  command->add_flag("--deterministic", arguments->deterministic, "short for --set run.deterministic=true");
  command->add_option("--out", arguments->out,
                      "the run's folder (default runs/<model>-<data>-<regime>-s<seed>, with batch, learning rate and "
                      "epochs that are not the defaults)");
  command->add_option("--data-dir", arguments->data_dir,
                      "folder of the data sets (covnoise info lists the others that are searched)");
  command->add_option("--resume", arguments->resume,
                      "resume the run in this folder; --device and --threads may differ, and a higher --epochs "
                      "continues a finished run");
  command
      ->add_option("--timeout", arguments->timeout,
                   "with several processes: seconds to wait for one another, at the start and in a step (default 600)")
      ->check(above_zero());
  command->add_flag("--dry-run", arguments->dry_run, "print the resolved configuration and stop");
  command->add_flag("--help-keys", arguments->help_keys, "list every key with its default and meaning");
  command->add_flag("--quiet", arguments->quiet, "print only the result");
  command->callback([arguments] { run_train(*arguments); });
}

}  // namespace covnoise
