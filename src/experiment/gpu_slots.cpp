#include "experiment/gpu_slots.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"

#include <c10/core/Device.h>
#include <fmt/format.h>

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
constexpr int kMostSlots = 256;

/// The device as every process of the machine calls it: what CUDA_VISIBLE_DEVICES lists at the index, else the index.
std::string name_of(const std::string& device) {
  const auto index = at::Device(device).index();
  std::string name = fmt::to_string(index < 0 ? 0 : static_cast<int>(index));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream list(visible ? visible : "");
  std::string entry;
  for (int i = 0; std::getline(list, entry, ','); ++i) {
    if (fmt::to_string(i) == name) return entry;
  }
  return name;
}

fs::path slot(const fs::path& folder, const std::string& device, int number) {
  return folder / fmt::format("gpu-{}-{}", name_of(device), number);
}

}  // namespace

std::optional<FileLock> take_gpu_slot(const fs::path& folder, const std::string& device) try {
  create_folders(folder);
  for (int number = 0; number < kMostSlots; ++number) {
    if (auto taken = FileLock::try_take(slot(folder, device, number))) return taken;
  }
  return std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

fs::path gpu_slot_folder() { return fs::temp_directory_path() / fmt::format("covnoise-{}", ::getuid()); }

std::size_t gpu_slots_taken(const fs::path& folder, const std::string& device) {
  std::size_t taken = 0;
  for (int number = 0; number < kMostSlots; ++number) {
    const auto path = slot(folder, device, number);
    if (!fs::exists(path)) break;  // slots are created in their order
    taken += is_locked(path) ? 1 : 0;
  }
  return taken;
}

}  // namespace covnoise
