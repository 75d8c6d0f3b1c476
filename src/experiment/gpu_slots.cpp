#include "experiment/gpu_slots.h"

#include <c10/core/Device.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <system_error>

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

GpuSlot::GpuSlot(const fs::path& folder, const std::string& device) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  for (int number = 0; number < kMostSlots; ++number) {
    descriptor_ = ::open(slot(folder, device, number).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

GpuSlot::~GpuSlot() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

fs::path gpu_slot_folder() { return fs::temp_directory_path() / fmt::format("covnoise-{}", ::getuid()); }

std::size_t gpu_slots_taken(const fs::path& folder, const std::string& device) {
  std::size_t taken = 0;
  for (int number = 0; number < kMostSlots; ++number) {
    const int descriptor = ::open(slot(folder, device, number).c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) break;  // slots are created in their order
    if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0) ++taken;
    ::close(descriptor);
  }
  return taken;
}

}  // namespace covnoise
