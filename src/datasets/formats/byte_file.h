#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

struct gzFile_s;

namespace covnoise {

/// Reads a file sequentially, decompressing gzip. Every failure is an Error with file and position.
class ByteFile {
 public:
  explicit ByteFile(const std::filesystem::path& path);
  ~ByteFile();
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  /// Reads exactly `size` bytes; `promised` is the expected length of the file, for the message if it is shorter.
  void read(void* target, std::size_t size, std::uint64_t promised);
  /// Reads up to `size` bytes, fewer only at the end of the file.
  std::size_t read_some(void* target, std::size_t size);
  /// Refuses bytes after the current position.
  void expect_end();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t position() const { return position_; }  // in unpacked bytes
  /// An upper bound on the unpacked bytes that follow: deflate packs at most 1032 bytes into one.
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  std::filesystem::path path_;
  gzFile_s* file_;
  std::uint64_t position_ = 0, most_bytes_ = 0;
};

/// The content of a file as it is on disk, refused if longer than `limit` bytes.
std::string read_whole_file(const std::filesystem::path& path, std::uint64_t limit);

/// Size in bytes of a regular file; an Error if it does not exist or is something else.
std::uint64_t regular_file_size(const std::filesystem::path& path);

}  // namespace covnoise
