#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

namespace covnoise {

/// A training's place among those that share its GPU, also with those of other commands: a lock on one of the device's
/// numbered files in a folder that all commands of a user know. The kernel releases it when the process ends, in
/// whatever way, so nothing that has ended is counted.
class GpuSlot {
 public:
  /// Takes the first free slot. In a folder that cannot be written it takes none, and this training is not counted.
  GpuSlot(const std::filesystem::path& folder, const std::string& device);
  ~GpuSlot();
  GpuSlot(const GpuSlot&) = delete;
  GpuSlot& operator=(const GpuSlot&) = delete;

 private:
  int descriptor_ = -1;
};

/// Below the system's folder for temporary files, one for each user.
std::filesystem::path gpu_slot_folder();

/// How many slots of the device are taken.
std::size_t gpu_slots_taken(const std::filesystem::path& folder, const std::string& device);

}  // namespace covnoise
