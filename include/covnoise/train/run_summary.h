#pragma once
#include "covnoise/train/config.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// What a run tells at a glance.
struct RunSummary {
  std::filesystem::path path;        ///< its folder, or FILE#NAME if only a record is available
  Config config;                     ///< resolved
  std::int64_t epoch = 0, step = 0;  ///< epochs done, and the steps of them
  std::optional<double> test_accuracy, train_accuracy, val_accuracy;  ///< of the last epoch done, in 0..1
  std::optional<double> train_eval_accuracy;                          ///< the training set's in evaluation mode
  std::optional<double> weight_norm;  ///< of all parameters after that epoch; none in runs of version 0.2
  double seconds = 0;                 ///< of training so far
  /// The higher training loss of the two epochs after the noise ended over that of the last one with noise. None if the
  /// noise never ended, or too late.
  std::optional<double> loss_jump;
  std::vector<std::string> warnings;  ///< what the run said of its health; none in runs of version 0.1
  bool loss_above_guessing = false;  ///< one of them: the loss of an epoch after the warm-up was above that of guessing
  bool diverged = false;             ///< whether the training ended with numbers that are not finite
};

/// A training whose loss_jump is larger was set back by the end of its noise: a healthy one's loss varies less.
constexpr double kLargestHealthyLossJump = 1.25;

RunSummary summarize_run(const std::filesystem::path& path);

/// The runs at or below `root`, sorted by path: folders of runs, and records of runs without a folder. `warn`
/// is called for each one that cannot be read.
std::vector<RunSummary> find_runs(const std::filesystem::path& root,
                                  const std::function<void(const std::string&)>& warn);

/// A table to print: one row per run, and below it a line for each warning.
std::string runs_table(const std::vector<RunSummary>& runs);

}  // namespace covnoise
