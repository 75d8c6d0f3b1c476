#include "datasets/formats/tar.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "datasets/formats/byte_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace covnoise {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kLargestMember = std::uint64_t{256} << 20;
using Block = std::array<char, kBlock>;

[[noreturn]] void refuse(const ByteFile& file, const std::string& what) {
  throw Error(
      fmt::format("{}: byte {} of the unpacked archive: {}", file.path().string(), file.position() - kBlock, what));
}

std::string_view field(const Block& header, std::size_t offset, std::size_t size) {
  const std::string_view whole(header.data() + offset, size);
  return whole.substr(0, whole.find('\0'));
}

/// Octal digits, possibly surrounded by blanks.
std::uint64_t octal(const ByteFile& file, const Block& header, std::size_t offset, std::size_t size) {
  std::string_view text = field(header, offset, size);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) refuse(file, "a number is missing");
  std::uint64_t value = 0;  // at most 12 digits: no overflow
  for (const char c : text) {
    if (c < '0' || c > '7') refuse(file, "a number is not octal");
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

/// The sum of the header's bytes, its own field (8 bytes at 148) taken as blanks.
void check_header(const ByteFile& file, const Block& header) {
  std::uint64_t sum = std::uint64_t{8} * ' ';
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (i < 148 || i >= 156) sum += static_cast<std::uint8_t>(header[i]);
  }
  if (std::memcmp(header.data() + 257, "ustar", 5) != 0) refuse(file, "not a tar header");
  if (sum != octal(file, header, 148, 8)) refuse(file, "the checksum of a tar header is wrong");
}

std::string member_name(const Block& header) {
  const std::string_view name = field(header, 0, 100);
  // Only POSIX has the prefix field; GNU's older form ("ustar  ") uses these bytes otherwise.
  const bool posix = header[262] == '\0';
  const std::string_view prefix = posix ? field(header, 345, 155) : std::string_view();
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

/// Skips `size` bytes and the padding after them; writes the bytes to `out` if given.
void copy_member(ByteFile& file, std::uint64_t size, OutputFile* out) {
  std::uint64_t left = (size + kBlock - 1) / kBlock * kBlock;
  const std::uint64_t end = file.position() + left;
  std::vector<char> buffer(std::min<std::uint64_t>(left, 1 << 20));
  while (left > 0) {
    const std::size_t chunk = std::min<std::uint64_t>(left, buffer.size());
    file.read(buffer.data(), chunk, end);
    if (out) out->write({buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(chunk, size))});
    size -= std::min<std::uint64_t>(chunk, size);
    left -= chunk;
  }
}

void unpack_member(ByteFile& file, std::uint64_t size, const std::filesystem::path& target) {
  OutputFile out(target, OutputFile::Mode::kReplace);
  copy_member(file, size, &out);
  out.sync();
  out.close();
}

}  // namespace

void unpack_tar(const std::filesystem::path& archive, const std::vector<TarMember>& members) {
  ByteFile file(archive);
  std::vector<bool> seen(members.size(), false);
  Block header{};
  while (file.read_some(header.data(), kBlock) == kBlock) {
    if (header == Block{}) break;  // the archive ends with blocks of zeros
    check_header(file, header);
    const std::string name = member_name(header);
    const char type = header[156];
    if (type != '0' && type != '\0' && type != '5')
      refuse(file, fmt::format("'{}' is of type '{}', refused", name, type));
    const std::uint64_t size = type == '5' ? 0 : octal(file, header, 124, 12);
    if (size > kLargestMember)
      refuse(file, fmt::format("'{}' has {} bytes; at most {} are unpacked", name, size, kLargestMember));
    const auto wanted =
        std::find_if(members.begin(), members.end(), [&](const TarMember& m) { return m.name == name; });
    if (type == '5' || wanted == members.end()) {
      copy_member(file, size, nullptr);
      continue;
    }
    const auto index = static_cast<std::size_t>(wanted - members.begin());
    if (seen[index]) refuse(file, fmt::format("'{}' comes twice", name));
    seen[index] = true;
    unpack_member(file, size, wanted->target);
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    throw Error(fmt::format("{}: '{}' is not in the archive", archive.string(), members[missing - seen.begin()].name));
  }
}

}  // namespace covnoise
