#pragma once
#include <filesystem>
#include <string>

#include "covnoise/core/internal/file_lock.h"
#include "covnoise/train/config.h"

namespace covnoise {

/// The paths in a run's folder.
struct RunFolder {
  std::filesystem::path root;

  std::filesystem::path config() const { return root / "config.toml"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path metrics_csv() const { return root / "metrics.csv"; }
  std::filesystem::path events() const { return root / "events.out.tfevents.0000000000.covnoise"; }
  std::filesystem::path software() const { return root / "software.json"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path snapshots() const { return root / "snapshots"; }
  std::filesystem::path snapshot(std::int64_t step) const;  ///< snapshots/step-00001234.safetensors
  std::filesystem::path lock() const { return root / ".lock"; }
};

/// runs/<model>-<data>-<regime>-s<seed> for a resolved configuration, with characters replaced that do not belong in
/// the name of a folder. Batch, learning rate and epochs stand before the seed where they are not the defaults.
std::filesystem::path default_run_name(const Config& config);

/// Throws an Error that lists the differences if the folder's config.toml has another configuration. More epochs are
/// none if the epochs of the run would have been the same (settings_relative_to_epochs, with its `noisy`).
void refuse_other_configuration(const RunFolder& folder, const Config& here, bool noisy);
/// The same for the structure that noise.structure names.
void refuse_other_configuration(const RunFolder& folder, const Config& here);

/// Writes config.toml if there is none. If there is one, only a higher number of epochs is written to it.
void record_configuration(const RunFolder& folder, const Config& config);

/// Keeps other processes from training in the same folder during its lifetime; the kernel releases it when the process
/// ends, in whatever way. A folder that is in use is an Error.
class RunLock {
 public:
  explicit RunLock(const RunFolder& folder);  ///< creates the folder if it is missing

 private:
  FileLock lock_;
};

}  // namespace covnoise
