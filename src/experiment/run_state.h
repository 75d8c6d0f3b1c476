#pragma once
#include "covnoise/experiment/runner.h"
#include "covnoise/train/internal/stored_run.h"

#include <filesystem>
#include <optional>
#include <string>

namespace covnoise {

enum class RunState {
  kMissing,
  kUnfinished,
  kFinished,
  kDiverged,
  kOther,  ///< a run of another configuration has its place
};

/// What is available of a planned run.
struct Trained {
  RunSpec spec;
  std::filesystem::path folder;  ///< where it is, or would be, trained
  RunState state = RunState::kMissing;
  RunSummary summary;  ///< of kUnfinished, kFinished and kDiverged
  std::optional<StoredRun> stored;
  bool records_only = false;  ///< `stored` is what results/ keeps of the run: no weights, no single steps

  /// Whether `stored` is this run, or what is kept of it.
  bool there() const { return state != RunState::kMissing && state != RunState::kOther; }
  /// Whether the run's own folder is there, with its weights and steps.
  bool whole() const { return there() && !records_only; }
};

/// The run in its folder below `out`/runs.
Trained look_up(const RunSpec& spec, const std::filesystem::path& out);
/// The run as a record of it tells.
Trained from_record(const RunSpec& spec, const StoredRun& record);

/// "finished", "not run", "diverged", "3 of 50 epochs", "of another configuration".
std::string state_text(const Trained& run);

}  // namespace covnoise
