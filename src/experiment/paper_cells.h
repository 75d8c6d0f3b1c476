#pragma once
#include "covnoise/core/spread.h"
#include "covnoise/experiment/paper.h"
#include "experiment/paper_items.h"

#include <string>
#include <vector>

namespace covnoise::paper {

enum class State {
  kMissing,
  kUnfinished,
  kFinished,
  kDiverged,
  kOther,  ///< the folder holds a run of another configuration
};

/// In the run's folder: an interrupted command does not compute it again.
constexpr const char* kEigenvalueFile = "largest-eigenvalue.json";
/// In the run's folder: what figures 2 and 5a found in its networks.
constexpr const char* kVarianceFile = "gradient-variance.json";
constexpr const char* kFrobeniusFile = "frobenius-norms.json";
/// In the run's folder: figure 3's curve, what is kept of the single steps.
constexpr const char* kErrorFile = "training-error.json";

/// A run as its folder tells.
struct Trained {
  RunSpec spec;
  std::filesystem::path folder;
  State state = State::kMissing;
  RunSummary summary;         ///< of kUnfinished, kFinished and kDiverged
  bool records_only = false;  ///< what results/ keeps of a run: no weights, no single steps

  /// Whether the folder is this run's, or what is kept of it.
  bool there() const { return state != State::kMissing && state != State::kOther; }
  /// Whether the folder is the run's own, with its weights and steps.
  bool whole() const { return there() && !records_only; }
};

/// One regime of one row, with every seed that was asked for or is there.
struct Cell {
  Row row;
  std::string regime;
  std::vector<Trained> runs;  ///< by seed

  std::vector<const Trained*> with_state(State state) const;
  /// "", or what is missing: "seed 1 at 3 of 50 epochs, seed 2 not run".
  std::string remark() const;
};

/// A run of the item: the row's recipe, the regime, the seed, the options' settings and scale.
RunSpec spec_of(const Row& row, const std::string& regime, std::uint64_t seed, const Options& options);

/// What there is of a run below `out`/runs.
Trained look_up(const RunSpec& spec, const std::filesystem::path& out);

/// All cells of the item, row by row. Where a run is not there, what `out`/results/runs keeps of it stands in for it.
std::vector<Cell> read_cells(const Item& item, const Options& options);

/// "finished", "not run", "diverged", "3 of 50 epochs", "of another configuration".
std::string state_text(const Trained& run);

/// Mean and spread over the finished runs of a cell.
Spread over_finished(const Cell& cell, std::optional<double> RunSummary::*value);

}  // namespace covnoise::paper
