#include "covnoise/core/internal/file_lock.h"

#include "covnoise/core/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code unknown;  // what cannot be looked at cannot be opened, either
  return fs::is_directory(path, unknown);
}

}  // namespace

FileLock::FileLock(const fs::path& path)
    : descriptor_(::open(path.c_str(), (is_folder(path) ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw Error(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FileLock::lock(int operation, const fs::path& path) {
  while (::flock(descriptor_, operation) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) throw Error(fmt::format("cannot lock {}: {}", path.string(), std::strerror(errno)));
  }
  return true;
}

FileLock FileLock::wait_for(const fs::path& path) {
  FileLock taken(path);
  taken.lock(LOCK_EX, path);
  return taken;
}

std::optional<FileLock> FileLock::try_take(const fs::path& path) {
  FileLock taken(path);
  if (!taken.lock(LOCK_EX | LOCK_NB, path)) return std::nullopt;
  return taken;
}

bool is_locked(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  ::close(descriptor);
  return locked;
}

}  // namespace covnoise
