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
  kOther,  ///< its folder or record holds a run of another configuration
};

/// What is available of a planned run.
struct Trained {
  RunSpec spec;
  std::filesystem::path folder;  ///< where it is trained, or would be
  RunState state = RunState::kMissing;
  RunSummary summary;  ///< for kUnfinished, kFinished and kDiverged
  std::optional<StoredRun> stored;
  bool records_only = false;  ///< `stored` is what results/ keeps of the run: no weights, no single steps

  /// Whether `stored` is this run or a record of it.
  bool there() const { return state != RunState::kMissing && state != RunState::kOther; }
  /// Whether the run's own folder is available, with its weights and steps.
  bool whole() const { return there() && !records_only; }
};

/// The run in its folder below `out`/runs.
Trained look_up(const RunSpec& spec, const std::filesystem::path& out);
/// The run according to a record of it.
Trained from_record(const RunSpec& spec, const StoredRun& record);

/// "finished", "not run", "diverged", "3 of 50 epochs", "of another configuration".
std::string state_text(const Trained& run);

}  // namespace covnoise
