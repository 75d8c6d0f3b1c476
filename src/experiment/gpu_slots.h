#pragma once
#include "covnoise/core/internal/file_lock.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

/// How many trainings share a GPU, also those of other commands: each locks one of the device's numbered files in a
/// folder that all commands of a user know.
namespace covnoise {

/// The first free slot, taken. Nothing in a folder that cannot be written: such a training is not counted.
std::optional<FileLock> take_gpu_slot(const std::filesystem::path& folder, const std::string& device);

/// Below the system's folder for temporary files, one for each user.
std::filesystem::path gpu_slot_folder();

/// How many slots of the device are taken.
std::size_t gpu_slots_taken(const std::filesystem::path& folder, const std::string& device);

}  // namespace covnoise
