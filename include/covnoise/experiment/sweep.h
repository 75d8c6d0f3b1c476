#pragma once
#include "covnoise/experiment/runner.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// A search over values of any keys.
struct SweepOptions {
  std::optional<std::filesystem::path> recipe;
  std::vector<std::string> set;   ///< "key=value", for all runs
  std::vector<std::string> vary;  ///< "key=v1,v2,v3"; for a random search also "key=log:from:to" and "key=lin:from:to"
  /// Each "key=v1,v2 key=v1": a search over several grids, one after the other, each combined with `vary`.
  std::vector<std::string> grids;
  std::vector<std::string> only;  ///< "key=v1,v2": keeps only the points with one of these values
  std::int64_t random = 0;        ///< this many random choices instead of the whole grid (with every value of the seed)
  std::uint64_t seed = 0;         ///< of the random choices
};

/// A sweep as a TOML file:
///
///     recipe = "cifar10.toml"         # relative to this file
///     out = "runs/search"             # default of --out
///     table = "results/search.csv"    # default of --table
///     [set]                           # for all runs
///     data.holdout = 5000
///     [vary]                          # varied in every grid
///     seed = [0, 1]
///     [[grid]]                        # an array lists the values to try, anything else is the only value
///     regime = ["lb", "lb-diag"]
///     train = {lr = [0.8, 1.6], weight_decay = 5e-4}
struct SweepFile {
  SweepOptions options;              ///< recipe, set, vary and grids
  std::filesystem::path out, table;  ///< empty: not given
};

/// Nothing if the file has none of these keys: it is a recipe.
std::optional<SweepFile> read_sweep_file(const std::filesystem::path& path);

/// One setting of the keys that vary, without the seed.
struct SweepPoint {
  std::vector<std::pair<std::string, std::string>> values;  ///< key and value as given
  std::vector<RunSpec> runs;                                ///< one per seed
};

/// The points of a sweep with their runs, none of them twice. The name of a run contains its values.
std::vector<SweepPoint> sweep_points(const SweepOptions& options);

/// A point with the outcome of its runs. Accuracies are means over the runs that did not diverge, in 0..1.
struct SweepOutcome {
  SweepPoint point;
  std::int64_t ended = 0;              ///< of its runs
  std::int64_t diverged = 0;           ///< of those
  double accuracy = 0, deviation = 0;  ///< of the judging split: held out, or test where nothing is held out
  double test_accuracy = 0;
};

/// Outcomes, best first; points without an accuracy come last.
struct SweepResult {
  std::vector<SweepOutcome> outcomes;
  std::vector<std::string> failures;  ///< one line per failed run
};

/// The sweep.csv of an earlier sweep: its line replaces the runs of a point if it has more of them than are available,
/// and a point of which it has all runs is not trained again.
using EarlierTable = std::optional<std::filesystem::path>;

/// A readable list of the runs with their states below `out`, without those that `earlier` has.
std::string sweep_plan(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                       const EarlierTable& earlier = std::nullopt);

SweepResult run_sweep(const std::vector<SweepPoint>& points, const RunnerOptions& options,
                      const EarlierTable& earlier = std::nullopt);
/// From the runs available below `out`, without training any.
SweepResult collect_sweep(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                          const EarlierTable& earlier = std::nullopt);

/// A readable table; says which split judged.
std::string sweep_table(const std::vector<SweepOutcome>& outcomes);

/// Writes sweep.csv, one line per point of which a run has ended, best first, and sweep.json with all points.
std::vector<std::filesystem::path> save_sweep(const std::vector<SweepOutcome>& outcomes,
                                              const std::filesystem::path& folder);

}  // namespace covnoise
