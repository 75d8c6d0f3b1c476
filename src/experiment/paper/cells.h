#pragma once
#include "covnoise/core/internal/mean_std.h"
#include "covnoise/experiment/internal/paper.h"
#include "experiment/paper/items.h"
#include "experiment/run_state.h"

#include <string>
#include <vector>

namespace covnoise::paper {

/// In the run's folder: an interrupted command does not compute it again.
constexpr const char* kEigenvalueFile = "largest-eigenvalue.json";
/// In the run's folder: what figures 2 and 5a found in its networks.
constexpr const char* kVarianceFile = "gradient-variance.json";
constexpr const char* kFrobeniusFile = "frobenius-norms.json";
/// In the run's folder: figure 3's curve, what is kept of the single steps.
constexpr const char* kErrorFile = "training-error.json";

/// One regime of one row, with every seed that was asked for or is there.
struct Cell {
  Row row;
  std::string regime;
  std::vector<Trained> runs;  ///< by seed

  std::vector<const Trained*> with_state(RunState state) const;
  /// "", or what is missing: "seed 1 at 3 of 50 epochs, seed 2 not run".
  std::string remark() const;
};

/// A run of the item: the row's recipe, the regime, the seed, the options' settings and scale.
RunSpec spec_of(const Row& row, const std::string& regime, std::uint64_t seed, const Options& options);

/// All cells of the item, row by row. Where a run is not there, what `out`/results/runs keeps of it stands in for it.
std::vector<Cell> read_cells(const Item& item, const Options& options);

/// Mean and spread over the finished runs of a cell.
MeanStd over_finished(const Cell& cell, std::optional<double> RunSummary::*value);

}  // namespace covnoise::paper
