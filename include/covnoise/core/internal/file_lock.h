#pragma once
#include <filesystem>
#include <optional>

namespace covnoise {

/// An exclusive lock of a file or folder among processes. The kernel releases it when a process ends, in whatever way.
/// A file that is missing is created, its folder is not. An Error says why it cannot be opened or locked.
class FileLock {
 public:
  static FileLock wait_for(const std::filesystem::path& path);                 ///< waits for the process that has it
  static std::optional<FileLock> try_take(const std::filesystem::path& path);  ///< nothing if another process has it
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(const std::filesystem::path& path);
  /// flock(2) with this operation; false if another process has the lock.
  bool lock(int operation, const std::filesystem::path& path);
  int descriptor_;
};

/// Whether a process has the lock; not if there is no such file.
bool is_locked(const std::filesystem::path& path);

}  // namespace covnoise
