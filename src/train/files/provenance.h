#pragma once
#include "covnoise/train/config.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/run_folder.h"

#include <functional>
#include <string>

namespace covnoise {

/// What a checkpoint records of the training besides its state, so that it is not resumed as another one.
struct Provenance {
  std::string config;  ///< settings_of
  std::string data;    ///< data_digest
};

/// One line "key = value" for each key that decides the training, except for the number of epochs: a run may be
/// continued.
std::string settings_of(const Config& config);

/// Adds it to a checkpoint's state, with the number of metrics records so far.
void add_provenance(nlohmann::json& state, const Provenance& provenance, std::int64_t records);

/// Refuses a config.toml that is not the checkpoint's.
void refuse_other_config(const LoadedCheckpoint& checkpoint, const RunFolder& folder);

/// Whether the checkpoint was trained on other data; false if it does not say.
bool is_of_other_data(const LoadedCheckpoint& checkpoint, const std::string& data);

/// Refuses to resume from a checkpoint with another config.toml, on other data, or without its metrics. `say` is told
/// if the checkpoint is of an earlier version, which recorded none of these.
void refuse_other_provenance(const LoadedCheckpoint& checkpoint, const RunFolder& folder, const std::string& data,
                             const std::function<void(const std::string&)>& say);

/// Refuses to train in the folder of a finished run that has no checkpoint any more.
void refuse_lost_checkpoints(const RunFolder& folder);

}  // namespace covnoise
