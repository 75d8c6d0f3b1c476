#include "datasets/formats/byte_file.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace covnoise {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 30;  // gzread counts in int
constexpr unsigned kBuffer = 1 << 17;
constexpr std::uint64_t kDeflateRatio = 1032;

}  // namespace

std::uint64_t regular_file_size(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  if (error) throw Error(fmt::format("{}: cannot be opened: {}", path.string(), error.message()));
  if (!regular) throw Error(fmt::format("{}: not a regular file", path.string()));
  return std::filesystem::file_size(path);
}

ByteFile::ByteFile(const std::filesystem::path& path) : path_(path) {
  const std::uint64_t size = regular_file_size(path);
  errno = 0;
  file_ = gzopen(path.c_str(), "rb");
  if (!file_) throw Error(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  gzbuffer(file_, kBuffer);
  most_bytes_ = gzdirect(file_) ? size : size * kDeflateRatio;
}

ByteFile::~ByteFile() { gzclose_r(file_); }

std::size_t ByteFile::read_some(void* target, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const auto chunk = static_cast<unsigned>(std::min(size - done, kChunk));
    const int count = gzread(file_, static_cast<char*>(target) + done, chunk);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count == static_cast<int>(chunk)) continue;
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    // Z_BUF_ERROR: the compressed file is truncated; the caller sees too few bytes.
    if (count >= 0 && (code == Z_OK || code == Z_BUF_ERROR)) break;
    const std::string reason = code == Z_ERRNO ? std::strerror(errno) : message;
    throw Error(fmt::format("{}: damaged after byte {}: {}", path_.string(), position_ + done, reason));
  }
  position_ += done;
  return done;
}

void ByteFile::read(void* target, std::size_t size, std::uint64_t promised) {
  if (read_some(target, size) == size) return;
  throw Error(fmt::format("{}: ends at byte {}, but {} bytes were expected: the file was cut short", path_.string(),
                          position_, promised));
}

void ByteFile::expect_end() {
  const std::uint64_t end = position_;
  char extra = 0;
  if (read_some(&extra, 1) != 0) {
    throw Error(fmt::format("{}: extra bytes from byte {} on, where the file should end", path_.string(), end));
  }
  int code = Z_OK;
  gzerror(file_, &code);
  if (code == Z_BUF_ERROR) {  // the data is complete, but the checksum after it is missing
    throw Error(fmt::format("{}: the gzip data is cut short after byte {}", path_.string(), end));
  }
}

std::string read_whole_file(const std::filesystem::path& path, std::uint64_t limit) {
  const std::uint64_t size = regular_file_size(path);
  if (size > limit) throw Error(fmt::format("{}: {} bytes, but at most {} are read", path.string(), size, limit));
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    throw Error(fmt::format("{}: ends at byte {}, but {} bytes were expected", path.string(), file.gcount(), size));
  }
  return bytes;
}

}  // namespace covnoise
