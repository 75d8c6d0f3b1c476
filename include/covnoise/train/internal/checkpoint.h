#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "covnoise/core/safetensors.h"
#include "covnoise/train/if_damaged.h"

namespace covnoise {

/// The state that a training needs to resume. There is no clock and no random generator state: random numbers are a
/// function of seed and step.
struct Checkpoint {
  std::vector<NamedTensor> model;      ///< parameters and buffers
  std::vector<NamedTensor> optimizer;  ///< momentum, last noise, ...
  nlohmann::json state;                ///< anything else; numbers must be finite
};

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::int64_t step = 0;
  bool scheduled = true;
  std::optional<std::int64_t> best_step;  ///< the value passed to save
  std::filesystem::path path;
};

/// The folder checkpoints/ of a run. A checkpoint is a folder step-00001234 (step-00001234-interrupted if it was not
/// scheduled) with model.safetensors, optimizer.safetensors, state.json and SHA256SUMS (`sha256sum -c` reads it). It is
/// written to a temporary folder, synced and renamed, so that a folder of that name is complete unless the disk damages
/// it.
///
/// The last two scheduled checkpoints and the best are kept, and an unscheduled one until the next save: an interrupted
/// and resumed run ends with the same files as an uninterrupted one. Equal states give equal bytes.
class CheckpointStore {
 public:
  struct Entry {
    std::int64_t step;
    bool scheduled;
    std::filesystem::path path;
  };
  using Warn = std::function<void(const std::string&)>;

  explicit CheckpointStore(std::filesystem::path folder);

  /// The checkpoint is durable on return; obsolete ones are removed afterwards. On an Error all older ones are intact.
  /// `best_step` is the scheduled step with the best result so far, including this one. An unscheduled save at a step
  /// that has a scheduled checkpoint does nothing.
  void save(const Checkpoint& checkpoint, std::int64_t step, bool scheduled, std::optional<std::int64_t> best_step);

  /// The newest intact checkpoint; `warn` gets a line for each newer one that is damaged. Nothing if there is no
  /// checkpoint, an Error if all are damaged. Does not change anything on the disk. kRefuse: an Error if the newest is
  /// damaged.
  std::optional<LoadedCheckpoint> load_latest(const Warn& warn, IfDamaged damaged = IfDamaged::kUseOlder) const;

  /// The checkpoint of the newest one's best_step; the newest if there is none, or if that is damaged.
  std::optional<LoadedCheckpoint> load_best(const Warn& warn, IfDamaged damaged = IfDamaged::kUseOlder) const;

  /// Reads one checkpoint and verifies its checksums; an Error says which file is damaged.
  static LoadedCheckpoint load(const std::filesystem::path& folder);

  /// Call it before resuming from `latest`: removes what a killed save left behind.
  void clean(const LoadedCheckpoint& latest) const;

  std::vector<Entry> list() const;  ///< by step, oldest first
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void remove_unneeded(std::int64_t step, bool scheduled, std::optional<std::int64_t> best_step, bool later_ones) const;

  std::filesystem::path folder_;
};

}  // namespace covnoise
