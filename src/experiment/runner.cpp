#include "covnoise/experiment/runner.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/child_process.h"
#include "covnoise/core/internal/counted.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/progress.h"
#include "covnoise/core/internal/signal_relay.h"
#include "covnoise/core/threads.h"
#include "covnoise/train/diverged.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/stored_run.h"
#include "experiment/durations.h"
#include "experiment/gpu_packing.h"
#include "experiment/gpu_slots.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <thread>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr int kPollsPerCount = 20;  // how often the trainings of other commands are counted
constexpr double kAround = 5;       // seconds before and after a training: to load LibTorch and data, to save the end

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

fs::path folder_below(const fs::path& out, const RunSpec& spec) { return out / "runs" / spec.name; }

/// The summary of a run whose metrics are complete.
std::optional<RunSummary> finished_outcome(const RunSpec& spec, const fs::path& run) {
  const RunFolder folder{run};
  if (!fs::exists(folder.config())) return std::nullopt;
  refuse_other_configuration(folder, spec.config);
  if (!fs::exists(folder.metrics())) return std::nullopt;
  auto summary = summarize_run(run);
  if (!summary.diverged && summary.epoch != spec.config.train.epochs) return std::nullopt;
  return summary;
}

/// Whether a run needs no more training. The metrics are written before the last checkpoint. A finished run without any
/// checkpoint counts as well: its checkpoints were deleted to free space.
bool ended(const RunSpec& spec, const fs::path& run) {
  const auto summary = finished_outcome(spec, run);
  if (!summary || summary->diverged) return summary.has_value();
  const auto checkpoints = CheckpointStore(RunFolder{run}.checkpoints()).list();
  return checkpoints.empty() || checkpoints.back().step == summary->step;
}

std::int64_t epochs_done(const fs::path& run) {
  return fs::exists(RunFolder{run}.metrics()) ? summarize_run(run).epoch : 0;
}

std::string last_line(const fs::path& log) {
  std::string text = read_file(log);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// Works through the list.
class Queue {
 public:
  Queue(const std::vector<RunSpec>& specs, const RunnerOptions& options)
      : options_(options),
        relay_(options.stop_signal, options.stop_now),
        clock_(options.clock ? options.clock : steady_seconds),
        end_(options.minutes > 0 ? clock_() + 60 * options.minutes : std::numeric_limits<double>::infinity()) {
    require(options.jobs >= 0, fmt::format("{} parallel runs: at least 1 is needed", options.jobs));
    for (const auto& spec : specs) {
      if (!ended(spec, folder_of(spec)))
        waiting_.push_back(results_.size());
      else
        note_duration(spec);
      results_.push_back({spec, {}, {}});
      epochs_done_.push_back(epochs_done(folder_of(spec)));
    }
    for (const auto& run : options.known) elsewhere_.add(run.config, run.seconds, run.side_by_side);
    before_ = results_.size() - waiting_.size();
  }

  std::vector<RunResult> work() {
    ProgressBar bar(static_cast<std::int64_t>(waiting_.size()), "runs", options_.progress_bar);
    if (before_ > 0) options_.say(fmt::format("{} of {} runs were already finished", before_, results_.size()));
    while (!waiting_.empty() || !running_.empty()) {
      relay_.pass_on([&](int signal) {
        for (auto& job : running_) job.process.signal(signal);
      });
      if (stopping_ == 0) stopping_ = relay_.signal();
      if (stopping_ != 0 && running_.empty()) break;
      stop_in_time();
      while (stopping_ == 0 && !time_is_up() && start_one()) {
      }
      if (running_.empty()) break;  // nothing of what is left ends in time
      std::this_thread::sleep_for(kPoll);
      if (++polls_ % kPollsPerCount == 0) note_packing();
      collect(bar);
    }
    bar.clear();
    if (stopping_ != 0) {
      throw Error(fmt::format("interrupted with {} of {} runs left; repeat the command to resume",
                              results_.size() - before_ - done_ + failures_of(results_).size(), results_.size()),
                  128 + stopping_);
    }
    std::size_t left = 0;
    for (auto& result : results_) {
      if (!result.failure.empty()) continue;
      result.summary = finished_outcome(result.spec, folder_of(result.spec));
      left += result.summary ? 0 : 1;
    }
    if (left > 0)
      options_.say(
          fmt::format("{} of {} runs would not end in the {:g} minutes, or did not; repeat the command to resume", left,
                      results_.size(), options_.minutes));
    return results_;
  }

 private:
  struct Job {
    std::size_t index;
    ChildProcess process;
    Packing packing;
    std::optional<FileLock> slot;  // on a GPU
  };

  bool time_is_up() const { return clock_() >= end_; }

  /// Interrupts the runs when the time is up, once.
  void stop_in_time() {
    if (interrupted_ || !time_is_up()) return;
    interrupted_ = true;
    for (auto& job : running_) job.process.signal(SIGINT);
  }

  void note_duration(const RunSpec& spec) {
    const auto summary = summarize_run(folder_of(spec));
    if (!summary.diverged)
      here_.add(summary.config, summary.seconds, Packing(kept_json(packing_of(spec))).side_by_side());
  }

  /// Whether a run would end in time if the device has `others` of other commands. One of an unknown duration may.
  bool fits(std::size_t index, std::size_t others) const {
    if (std::isinf(end_)) return true;
    const auto& config = results_[index].spec.config;
    const auto side_by_side_here =
        std::min<std::size_t>(side_by_side(config, options_.jobs), running_.size() + waiting_.size());
    const auto left_by = [&](const Durations& known) {
      return known.left(config, epochs_done_[index], others + side_by_side_here);
    };
    auto left = left_by(here_);
    if (!left) left = left_by(elsewhere_);
    return !left || clock_() + *left + kAround <= end_;
  }

  /// How many runs of other commands are on the GPU of the next run; none on a CPU.
  std::size_t others_on_gpu() const {
    if (waiting_.empty() || std::isinf(end_)) return 0;
    const auto& config = results_[waiting_.front()].spec.config;
    if (!on_gpu(config)) return 0;
    const auto own = static_cast<std::size_t>(
        std::count_if(running_.begin(), running_.end(), [](const Job& job) { return job.slot.has_value(); }));
    const auto taken = gpu_slots_taken(slots_, config.run.device);
    return taken - std::min(own, taken);
  }

  /// Starts the next run that there is room and time for; false if there is none.
  bool start_one() {
    const auto others = others_on_gpu();
    std::vector<std::size_t> in_time;
    std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(in_time),
                 [&](std::size_t index) { return fits(index, others); });
    std::vector<const Config*> waiting, running;
    for (const std::size_t index : in_time) waiting.push_back(&results_[index].spec.config);
    for (const auto& job : running_) running.push_back(&results_[job.index].spec.config);
    const auto next = next_to_start(waiting, running, options_.jobs);
    if (!next) return false;
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), in_time[*next]));
    start(in_time[*next]);
    return true;
  }

  void start(std::size_t index) {
    const auto& spec = results_[index].spec;
    const fs::path log = log_of(index), recipe = fs::path(log).replace_extension(".toml");
    for (const auto& path : {log.parent_path(), folder_of(spec)}) create_folders(path);
    write_file_synced(recipe, to_toml(spec.config));
    std::vector<std::string> words = {
        options_.program.string(),
        "train",
        recipe.string(),
        "--out",
        folder_of(spec).string(),
        "--threads",
        fmt::to_string(std::max<std::int64_t>(1, available_processors() / side_by_side(spec.config, options_.jobs)))};
    if (!options_.data_dir.empty()) words.insert(words.end(), {"--data-dir", options_.data_dir});
    Packing packing(kept_json(packing_of(spec)));  // of a run that is resumed
    packing.add_process();
    auto slot = on_gpu(spec.config) ? take_gpu_slot(slots_, spec.config.run.device) : std::nullopt;
    running_.push_back({index, ChildProcess({words, {}, log}), packing, std::move(slot)});
    note_packing();
  }

  /// Writes down how many share a device where it is more than before, those of other commands included.
  void note_packing() {
    for (auto& job : running_) {
      const auto& spec = results_[job.index].spec;
      const auto on_device = job.slot ? gpu_slots_taken(slots_, spec.config.run.device) : 0;
      if (job.packing.add_side_by_side(std::max(running_.size(), on_device)))
        write_file_synced(packing_of(spec), job.packing.to_json().dump() + "\n");
    }
  }

  fs::path packing_of(const RunSpec& spec) const { return folder_of(spec) / (std::string(kPacking) + ".json"); }

  void collect(ProgressBar& bar) {
    for (std::size_t i = 0; i < running_.size();) {
      const auto code = running_[i].process.poll();
      if (!code) {
        ++i;
        continue;
      }
      const std::size_t index = running_[i].index;
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      const bool stopped = stopping_ != 0 || (interrupted_ && *code == 128 + SIGINT);
      if (stopped && *code != 0 && *code != kDivergedExit) continue;
      finish(index, *code);
      bar.update(static_cast<std::int64_t>(++done_), results_[index].spec.name);
      if (!bar.enabled()) options_.say(progress_text(index));
    }
  }

  void finish(std::size_t index, int code) {
    // It was interrupted itself.
    if (code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP) stopping_ = code - 128;
    if (code == 0 || code == kDivergedExit) {
      note_duration(results_[index].spec);
      options_.ended(results_[index].spec);
    }
    if (stopping_ != 0 || code == 0 || code == kDivergedExit) return;
    results_[index].failure = fmt::format("the run {} failed: {} (log: {})", results_[index].spec.name,
                                          last_line(log_of(index)), log_of(index).string());
  }

  std::string outcome_text(const RunResult& result) const {
    if (!result.failure.empty()) return "failed";
    const auto summary = summarize_run(folder_of(result.spec));
    return summary.diverged ? "diverged"
                            : fmt::format("test accuracy {:.2f} %", 100 * summary.test_accuracy.value_or(0));
  }

  std::string progress_text(std::size_t index) const {
    return fmt::format("{}/{}  {}: {}", before_ + done_, results_.size(), results_[index].spec.name,
                       outcome_text(results_[index]));
  }

  fs::path folder_of(const RunSpec& spec) const { return folder_below(options_.out, spec); }
  fs::path log_of(std::size_t index) const {
    const fs::path logs = options_.logs.empty() ? options_.out / "logs" : options_.logs;
    return logs / (results_[index].spec.name + ".log");
  }

  const RunnerOptions& options_;
  const fs::path slots_ = options_.gpu_slots.empty() ? gpu_slot_folder() : options_.gpu_slots;
  int polls_ = 0;
  SignalRelay relay_;
  std::function<double()> clock_;
  double end_;
  bool interrupted_ = false;  // because the time was up
  Durations here_, elsewhere_;
  std::vector<std::int64_t> epochs_done_;  // before this queue, by run
  std::vector<RunResult> results_;
  std::vector<std::size_t> waiting_;
  std::vector<Job> running_;
  std::size_t before_ = 0, done_ = 0;
  int stopping_ = 0;
};

}  // namespace

std::vector<RunResult> run_all(const std::vector<RunSpec>& specs, const RunnerOptions& options) {
  return Queue(specs, options).work();
}

std::vector<RunResult> collect_all(const std::vector<RunSpec>& specs, const fs::path& out) {
  std::vector<RunResult> results;
  for (const auto& spec : specs) results.push_back({spec, finished_outcome(spec, folder_below(out, spec)), {}});
  return results;
}

std::vector<std::string> failures_of(const std::vector<RunResult>& results) {
  std::vector<std::string> failures;
  for (const auto& result : results) {
    if (!result.failure.empty()) failures.push_back(result.failure);
  }
  return failures;
}

void refuse_failures(const std::vector<std::string>& failures, const std::function<void(const std::string&)>& say) {
  for (const auto& line : failures) say(line);
  require(failures.empty(), fmt::format("{} failed; repeat the command to try again", counted(failures.size(), "run")));
}

}  // namespace covnoise
