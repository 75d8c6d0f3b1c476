#include "covnoise/core/internal/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "covnoise/core/error.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space and repeat";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; change its permissions or choose another folder";
    default:
      return "";
  }
}

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw Error(fmt::format("cannot {} {}: {}{}", what, path.string(), std::strerror(error), advice(error)));
}

/// Repeats the call while a signal interrupts it.
template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return value_; }

 private:
  int value_;
};

int open_to_write(const fs::path& path, int how) {
  const int descriptor = retry([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666); });
  if (descriptor < 0) fail("write", path, errno);
  return descriptor;
}

bool is_named(int descriptor, const fs::path& path) {
  struct stat open, named;
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

/// Opens `path` once no other writer has it. A file system without locks has no turns, either.
int open_in_turn(const fs::path& path) {
  while (true) {
    const int descriptor = open_to_write(path, 0);
    retry([&] { return ::flock(descriptor, LOCK_EX); });
    // Otherwise its last writer has renamed it, and the name is free for a new file.
    if (is_named(descriptor, path)) return descriptor;
    ::close(descriptor);
  }
}

}  // namespace

OutputFile::OutputFile(fs::path path, Mode mode) : path_(std::move(path)) {
  if (mode == Mode::kInTurn) {
    descriptor_ = open_in_turn(path_);
    if (::ftruncate(descriptor_, 0) != 0) fail("write", path_, errno);
  } else {
    descriptor_ = open_to_write(path_, mode == Mode::kReplace ? O_TRUNC : mode == Mode::kAppend ? O_APPEND : O_EXCL);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::string_view data) {
  constexpr std::size_t kMost = 1 << 30;  // a single write(2) takes at most 2 GiB
  while (!data.empty()) {
    const auto written = retry([&] { return ::write(descriptor_, data.data(), std::min(data.size(), kMost)); });
    if (written < 0) fail("write", path_, errno);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::sync() {
  // EINVAL: a pipe or a device, which cannot be synced.
  if (retry([&] { return ::fsync(descriptor_); }) < 0 && errno != EINVAL) fail("write", path_, errno);
}

void OutputFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  // After EINTR the descriptor is closed on Linux; a second close could hit another file.
  if (descriptor >= 0 && ::close(descriptor) < 0 && errno != EINTR) fail("write", path_, errno);
}

std::string read_file(const fs::path& path, std::uint64_t most) try {
  const Descriptor file(retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (file < 0) fail("read", path, errno);
  struct stat status;
  if (::fstat(file, &status) < 0) fail("read", path, errno);
  const auto check = [&](std::uint64_t size) {
    require(size <= most, fmt::format("cannot read {}: more than {} bytes", path.string(), most));
  };
  check(static_cast<std::uint64_t>(status.st_size));
  // One more byte than the file has, so that its end is seen without growing; files in /proc have the size 0.
  std::string data(static_cast<std::size_t>(std::max<off_t>(status.st_size, 4095)) + 1, '\0');
  std::size_t size = 0;
  while (true) {
    const auto got = retry([&] { return ::read(file, data.data() + size, data.size() - size); });
    if (got < 0) fail("read", path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    check(size);
    if (size == data.size()) data.resize(2 * size);
  }
  data.resize(size);
  return data;
} catch (const std::bad_alloc&) {
  fail("read", path, ENOMEM);
} catch (const std::length_error&) {
  fail("read", path, ENOMEM);
}

void write_new_file_synced(const fs::path& path, std::string_view data) {
  OutputFile file(path, OutputFile::Mode::kNew);
  file.write(data);
  file.sync();
  file.close();
}

void write_file_synced(const fs::path& path, std::string_view data) {
  const fs::path temporary = folder_of(path) / ("." + path.filename().string() + ".tmp");
  OutputFile file(temporary, OutputFile::Mode::kInTurn);
  try {
    file.write(data);
    file.sync();
    rename_synced(temporary, path);  // before it is closed, which ends this writer's turn
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (descriptor < 0) fail("open folder", folder, errno);
  // EINVAL: a file system that cannot sync folders.
  if (retry([&] { return ::fsync(descriptor); }) < 0 && errno != EINVAL) fail("sync folder", folder, errno);
}

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("create folder", folder, error.value());
}

void rename_synced(const fs::path& from, const fs::path& to) {
  struct stat status;
  const bool exists = ::lstat(to.c_str(), &status) == 0;
  require(
      !exists || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode),
      fmt::format("cannot write {}: it is a link, a device or another special file; only regular files are replaced",
                  to.string()));
  if (::rename(from.c_str(), to.c_str()) < 0) fail("write", to, errno);
  sync_folder(folder_of(to));
}

bool remove_tree(const std::filesystem::path& path) {
  const auto remove_one = [](const char* name, const struct stat*, int, struct FTW*) { return ::remove(name); };
  constexpr int kOpenFolders = 16;
  return ::nftw(path.c_str(), remove_one, kOpenFolders, FTW_DEPTH | FTW_PHYS) == 0;
}

}  // namespace covnoise
