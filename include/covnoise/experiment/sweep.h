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
  std::vector<RunSpec> runs;                                ///< one for each seed
};

/// The points of a sweep, each with its runs and none of them twice. Names of runs say their values.
std::vector<SweepPoint> sweep_points(const SweepOptions& options);

/// A point with what came out of its runs. Accuracies are means over the runs that did not diverge, in 0..1.
struct SweepOutcome {
  SweepPoint point;
  std::int64_t ended = 0;              ///< of its runs
  std::int64_t diverged = 0;           ///< of those
  double accuracy = 0, deviation = 0;  ///< of the judging split: held out, or test where nothing is held out
  double test_accuracy = 0;
};

/// What came out, best first; points without an accuracy come last.
struct SweepResult {
  std::vector<SweepOutcome> outcomes;
  std::vector<std::string> failures;  ///< a line for each run that failed
};

/// The sweep.csv of another collection: where it knows more runs of a point than are there, its line stands in for
/// them, and a point of which it knows all runs is not trained again.
using EarlierTable = std::optional<std::filesystem::path>;

/// The runs of a sweep for people, with what there is of each below `out`; not those that `earlier` knows.
std::string sweep_plan(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                       const EarlierTable& earlier = std::nullopt);

SweepResult run_sweep(const std::vector<SweepPoint>& points, const RunnerOptions& options,
                      const EarlierTable& earlier = std::nullopt);
/// Of the runs below `out` that are there, without training any.
SweepResult collect_sweep(const std::vector<SweepPoint>& points, const std::filesystem::path& out,
                          const EarlierTable& earlier = std::nullopt);

/// The table for people; says which split judged.
std::string sweep_table(const std::vector<SweepOutcome>& outcomes);

/// sweep.csv and sweep.json, a point each, best first.
std::vector<std::filesystem::path> save_sweep(const std::vector<SweepOutcome>& outcomes,
                                              const std::filesystem::path& folder);

}  // namespace covnoise
