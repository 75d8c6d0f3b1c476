#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "covnoise/core/safetensors.h"

namespace covnoise {

/// What a training needs to go on: no clock, no random generator (theirs is a function of seed and step).
struct Checkpoint {
  std::vector<NamedTensor> model;      ///< parameters and buffers
  std::vector<NamedTensor> optimizer;  ///< momentum, last noise, ...
  nlohmann::json state;                ///< anything else; numbers must be finite
};

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::int64_t step = 0;
  bool scheduled = true;
  std::optional<std::int64_t> best_step;  ///< as it was passed to save
  std::filesystem::path path;
};

/// The folder checkpoints/ of a run. One checkpoint is a folder step-00001234 (step-00001234-interrupted where it was
/// not due) of model.safetensors, optimizer.safetensors, state.json and SHA256SUMS (`sha256sum -c` reads it). It is
/// written beside, synced and renamed, so that a folder of that name is whole unless the disk damaged it.
///
/// Kept are the last two scheduled ones, the best, and one that was not scheduled until the next save: an interrupted
/// and resumed run ends with the files of an undisturbed one. The same state gives the same bytes.
class CheckpointStore {
 public:
  struct Entry {
    std::int64_t step;
    bool scheduled;
    std::filesystem::path path;
  };
  using Warn = std::function<void(const std::string&)>;

  explicit CheckpointStore(std::filesystem::path folder);

  /// Durable when it returns; what is no longer kept is removed after that. On an Error everything older is intact.
  /// `best_step`: the scheduled step with the best result so far, this one included. An unscheduled save at a step that
  /// has a scheduled checkpoint does nothing.
  void save(const Checkpoint& checkpoint, std::int64_t step, bool scheduled, std::optional<std::int64_t> best_step);

  /// The newest whole one; `warn` gets a line for each damaged one on the way. Nothing where there is no checkpoint, an
  /// Error where there are some but none is whole. Changes nothing on the disk.
  std::optional<LoadedCheckpoint> load_latest(const Warn& warn) const;

  /// The best one by the newest's best_step, or else the newest.
  std::optional<LoadedCheckpoint> load_best(const Warn& warn) const;

  /// One checkpoint's folder, checked byte for byte; an Error says which file is damaged.
  static LoadedCheckpoint load(const std::filesystem::path& folder);

  /// Before going on from `latest`: removes what a killed save left behind.
  void clean(const LoadedCheckpoint& latest) const;

  std::vector<Entry> list() const;  ///< by step, oldest first
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void remove_unneeded(std::int64_t step, bool scheduled, std::optional<std::int64_t> best_step, bool later_ones) const;

  std::filesystem::path folder_;
};

}  // namespace covnoise
