#pragma once
#include "covnoise/train/config.h"
#include "covnoise/train/run_summary.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// One training of an experiment.
struct RunSpec {
  std::string name;  ///< its folder below `runs/`
  Config config;     ///< resolved
};

/// What became of a run.
struct RunResult {
  RunSpec spec;
  std::optional<RunSummary> summary;  ///< of its last epoch, once it has ended (or diverged)
  std::string failure;                ///< one line: why it ended without a summary
};

/// How long a finished run took.
struct KnownDuration {
  Config config;
  double seconds = 0;
  std::size_t side_by_side = 0;  ///< how many runs shared its device at most, itself included; 0: not recorded
};

/// Where and how runs are trained.
struct RunnerOptions {
  std::filesystem::path out;      ///< the runs are out/runs/NAME
  std::filesystem::path logs;     ///< NAME.toml and NAME.log of each run; empty: out/logs
  std::filesystem::path program;  ///< covnoise, started once per run
  std::string data_dir;
  std::int64_t jobs = 0;  ///< parallel runs; 0: as many as suit the device
  /// For all of it; 0: no limit. By the durations of finished runs that shared the device with as many others, no run
  /// is started that would not end in time; what still runs when the time is up is interrupted, and saves its state.
  double minutes = 0;
  std::vector<KnownDuration> known;  ///< of runs finished elsewhere; they count where `out` has no run like it
  std::function<void(const RunSpec&)> ended = [](const RunSpec&) {};  ///< called after each run, not after failed ones
  std::function<double()> clock;                                      ///< in seconds, for tests; empty: the time
  std::filesystem::path gpu_slots;  ///< where commands count the runs on a GPU, for tests; empty: the user's folder
  std::function<int()> stop_signal = [] { return 0; };    ///< polled; if not 0, the runs are ended with this signal
  std::function<bool()> stop_now = [] { return false; };  ///< whether they get it a second time, and stop within a step
  bool progress_bar = false;
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// Trains every run in its own process and returns the results in the order of the list. software.json in a run's
/// folder lists the versions that trained it. Finished and diverged runs of the same configuration are not repeated,
/// interrupted ones are resumed; a folder with another configuration is an Error. A run that fails does not stop the
/// others. After a stop signal the runs save their state, and an Error with exit code 128 + signal says how many are
/// left. packing.json in a run's folder says how many runs were trained at once with it, at most ("side_by_side": those
/// of this command and, on a GPU, of others). When `minutes` are over, runs that are not finished have neither a
/// summary nor a failure.
std::vector<RunResult> run_all(const std::vector<RunSpec>& specs, const RunnerOptions& options);

/// The results of the runs available below `out`, without training any.
std::vector<RunResult> collect_all(const std::vector<RunSpec>& specs, const std::filesystem::path& out);

std::vector<std::string> failures_of(const std::vector<RunResult>& results);
/// Prints each line, then throws an Error with their number; does nothing if there are none.
void refuse_failures(const std::vector<std::string>& failures, const std::function<void(const std::string&)>& say);

}  // namespace covnoise
