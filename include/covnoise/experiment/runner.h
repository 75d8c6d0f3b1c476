#pragma once
#include "covnoise/train/config.h"
#include "covnoise/train/run_summary.h"

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
  std::optional<RunSummary> summary;  ///< its last epoch, once it is there; a run that diverged is a result, too
  std::string failure;                ///< a line that says why it ended without one
};

/// Where and how runs are trained.
struct RunnerOptions {
  std::filesystem::path out;      ///< runs/NAME, logs/NAME.toml and logs/NAME.log below it
  std::filesystem::path program;  ///< covnoise itself, to be started for each run
  std::string data_dir;
  std::int64_t jobs = 0;                                ///< runs at a time, 0: as many as the device has room for
  std::function<int()> stop_signal = [] { return 0; };  ///< asked all the time; not 0: end the runs with this signal
  bool progress_bar = false;
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// Trains everything in the list, each run in a process of its own, and returns the results in the order of the list.
/// Beside a run's own files stands software.json: the versions that trained it.
/// Finished and diverged runs of the same configuration are not repeated, interrupted ones go on; a folder with another
/// configuration is an Error. A run that fails does not keep the others from their end. After a stop signal the runs
/// save what they have, and an Error with exit code 128 + signal says how many are left.
std::vector<RunResult> run_all(const std::vector<RunSpec>& specs, const RunnerOptions& options);

/// What there is of the runs below `out`, without training any.
std::vector<RunResult> collect_all(const std::vector<RunSpec>& specs, const std::filesystem::path& out);

std::vector<std::string> failures_of(const std::vector<RunResult>& results);
/// Says each line, and ends with an Error that counts them; nothing where there is none.
void refuse_failures(const std::vector<std::string>& failures, const std::function<void(const std::string&)>& say);

}  // namespace covnoise
