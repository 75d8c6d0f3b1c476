#pragma once
#include "covnoise/core/internal/mean_std.h"
#include "covnoise/experiment/internal/paper.h"
#include "experiment/paper/items.h"
#include "experiment/run_state.h"

#include <string>
#include <vector>

namespace covnoise::paper {

// Documents (StoredRun::document) that items leave with a run, so that they are not computed again.
constexpr const char* kEigenvalue = "largest-eigenvalue";       ///< figure 5b
constexpr const char* kGradientVariance = "gradient-variance";  ///< figure 2
constexpr const char* kFrobeniusNorms = "frobenius-norms";      ///< figure 5a
constexpr const char* kTrainingError = "training-error";  ///< figure 3: the curve, which replaces the single steps

/// One regime of one row, with every seed that was asked for or is available.
struct Cell {
  Row row;
  std::string regime;
  std::vector<Trained> runs;  ///< by seed

  std::vector<const Trained*> with_state(RunState state) const;
  bool not_run() const;  ///< whether none of its runs was begun
  /// What is missing, such as "seed 1 3 of 50 epochs, seed 2 not run"; empty if nothing is.
  std::string remark() const;
  /// The same and what is not healthy: "loss above guessing with seeds 1, 2" and "loss rises 2.7 times when the noise
  /// ends", the most of its seeds.
  std::string remarks() const;
};

/// A run of the item: the row's recipe, the regime or variant, the seed, the options' settings and scale.
RunSpec spec_of(const Row& row, const std::string& regime, std::uint64_t seed, const Options& options);

/// All cells of the item, row by row. If a run is not available, its record in `out`/results/runs is used.
std::vector<Cell> read_cells(const Item& item, const Options& options);

/// These runs, in their order: what is available of them. Records count only where the item needs no networks.
std::vector<Trained> available_runs(const Item& item, const std::vector<RunSpec>& specs, const Options& options);

/// Puts what is kept of the cells' runs into the record files of their rows.
void keep_records(const std::vector<Cell>& cells, const Options& options);
/// The same for a run that has just ended.
void keep_record(const RunSpec& spec, const Options& options);

/// Mean and standard deviation over the finished runs of a cell.
MeanStd over_finished(const Cell& cell, std::optional<double> RunSummary::*value);

}  // namespace covnoise::paper
