#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace covnoise {

/// Reads a whole file of at most `most` bytes; an Error names the path and the reason.
std::string read_file(const std::filesystem::path& path, std::uint64_t most = UINT64_MAX);

/// Replaces the file `path` by `data` atomically and durably: writes a temporary file in the same folder, syncs and
/// renames it, syncs the folder. On an Error (no space, no permission, ...) the old file is unchanged and the temporary
/// one gone. Processes and threads that write the same file at once take turns: the last one's data stays.
void write_file_synced(const std::filesystem::path& path, std::string_view data);

/// Writes a new file in place and syncs it, without a rename: for files of a folder that is itself renamed.
void write_new_file_synced(const std::filesystem::path& path, std::string_view data);

/// Makes creations, renames and removals inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

/// Removes a file, or a folder with its content; false if something could not be removed. Replaces
/// std::filesystem::remove_all, of which the PyTorch wheel's libtorch.so exports a broken copy that crashes.
bool remove_tree(const std::filesystem::path& path);

/// Creates `folder` and its parents; an Error says why not.
void create_folders(const std::filesystem::path& folder);

/// Renames a file or folder durably. Only a regular file is replaced; a link, a device or a pipe is an Error.
void rename_synced(const std::filesystem::path& from, const std::filesystem::path& to);

/// A file opened for appending; every failure, including a delayed one at close, is an Error that names the path.
class OutputFile {
 public:
  enum class Mode {
    kReplace,
    kAppend,
    kNew,
    kInTurn,  ///< kReplace, once no other OutputFile of this mode has the file, in any process
  };
  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view data);  ///< to the kernel: survives the end of this process, not of the machine
  void sync();                        ///< to the disk
  void close();                       ///< reports what the destructor cannot
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace covnoise
