#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace covnoise {

/// The whole of a file; an Error names the path and the reason.
std::string read_file(const std::filesystem::path& path);

/// Replaces `path` by `data`, all or nothing, durable when it returns: written to a temporary beside it, synced,
/// renamed, the folder synced. On an Error (no space, no permission, ...) the old file is as it was and the temporary
/// is gone.
void write_file_synced(const std::filesystem::path& path, std::string_view data);

/// Writes a new file in place and syncs it, without the detour of a rename: for files of a folder that is itself
/// renamed.
void write_new_file_synced(const std::filesystem::path& path, std::string_view data);

/// Makes creations, renames and removals inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

/// Removes a file or a folder with all that is in it; false where something could not be removed. In place of
/// std::filesystem::remove_all, of which the PyTorch wheel's libtorch.so exports a broken copy that crashes.
bool remove_tree(const std::filesystem::path& path);

/// Creates `folder` and its parents; an Error says why not.
void create_folders(const std::filesystem::path& folder);

/// Renames a file or folder over nothing or over a file, durably.
void rename_synced(const std::filesystem::path& from, const std::filesystem::path& to);

/// An open file that is written at its end; every failure, also a delayed one at close, is an Error that names the
/// path.
class OutputFile {
 public:
  enum class Mode { kReplace, kAppend, kNew };
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
