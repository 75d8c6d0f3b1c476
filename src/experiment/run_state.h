#pragma once
#include "covnoise/experiment/runner.h"
#include "covnoise/train/run_summary.h"

#include <filesystem>
#include <string>

namespace covnoise {

enum class RunState {
  kMissing,
  kUnfinished,
  kFinished,
  kDiverged,
  kOther,  ///< the folder holds a run of another configuration
};

/// A run as its folder tells.
struct Trained {
  RunSpec spec;
  std::filesystem::path folder;
  RunState state = RunState::kMissing;
  RunSummary summary;         ///< of kUnfinished, kFinished and kDiverged
  bool records_only = false;  ///< what results/ keeps of a run: no weights, no single steps

  /// Whether the folder is this run's, or what is kept of it.
  bool there() const { return state != RunState::kMissing && state != RunState::kOther; }
  /// Whether the folder is the run's own, with its weights and steps.
  bool whole() const { return there() && !records_only; }
};

/// What there is of a run below `out`/runs.
Trained look_up(const RunSpec& spec, const std::filesystem::path& out);
/// The same for a given folder.
Trained look_into(const std::filesystem::path& folder, const RunSpec& spec);

/// "finished", "not run", "diverged", "3 of 50 epochs", "of another configuration".
std::string state_text(const Trained& run);

}  // namespace covnoise
