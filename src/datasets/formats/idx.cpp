#include "datasets/formats/idx.h"

#include "covnoise/core/error.h"
#include "datasets/formats/byte_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace covnoise {
namespace {

constexpr std::uint64_t kLargestIdx = std::uint64_t{256} << 20;  // unpacked; the largest real one has 47 MB

// Two zero bytes, the element type (8: unsigned byte), the number of dimensions.
constexpr std::uint32_t kImagesMagic = 0x00000803, kLabelsMagic = 0x00000801;

std::uint32_t read_big_endian(ByteFile& file) {
  std::array<std::uint8_t, 4> b{};
  file.read(b.data(), b.size(), file.position() + b.size());
  return (std::uint32_t{b[0]} << 24) | (std::uint32_t{b[1]} << 16) | (std::uint32_t{b[2]} << 8) | b[3];
}

void expect_magic(ByteFile& file, std::uint32_t expected, const char* what) {
  const std::uint32_t magic = read_big_endian(file);
  if (magic == expected) return;
  throw Error(fmt::format("{}: byte 0: magic number {:#010x}, but an IDX file of {} begins with {:#010x}",
                          file.path().string(), magic, what, expected));
}

/// Bytes that the file can hold, and that are read at most: a packed file may promise a thousand times its size.
std::uint64_t most_elements(const ByteFile& file) { return std::min(file.most_bytes(), kLargestIdx); }

/// Reads one dimension, and refuses it if the file cannot hold that many elements.
std::int64_t read_dimension(ByteFile& file, const char* what, std::uint64_t most) {
  const std::uint64_t at = file.position();
  const std::uint32_t size = read_big_endian(file);
  if (size >= 1 && size <= most) return size;
  throw Error(fmt::format("{}: byte {}: {} {}, but this file has room for 1 to {}", file.path().string(), at, size,
                          what, most));
}

}  // namespace

at::Tensor read_idx_images(const std::filesystem::path& path) {
  ByteFile file(path);
  expect_magic(file, kImagesMagic, "images");
  const std::uint64_t most = most_elements(file);
  const std::int64_t count = read_dimension(file, "images", most);
  const std::int64_t rows = read_dimension(file, "rows", most / count);
  const std::int64_t columns = read_dimension(file, "columns", most / (count * rows));
  at::Tensor images = at::empty({count, 1, rows, columns}, at::kByte);
  const auto size = static_cast<std::size_t>(images.numel());
  file.read(images.data_ptr(), size, file.position() + size);
  file.expect_end();
  return images;
}

at::Tensor read_idx_labels(const std::filesystem::path& path, std::int64_t classes) {
  ByteFile file(path);
  expect_magic(file, kLabelsMagic, "labels");
  const std::int64_t count = read_dimension(file, "labels", most_elements(file));
  const std::uint64_t begin = file.position();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  file.read(bytes.data(), bytes.size(), begin + bytes.size());
  file.expect_end();
  at::Tensor labels = at::empty({count}, at::kLong);
  auto* out = labels.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] >= classes) {
      throw Error(fmt::format("{}: byte {}: label {}, but labels are 0 to {}", path.string(), begin + i, bytes[i],
                              classes - 1));
    }
    out[i] = bytes[i];
  }
  return labels;
}

Dataset read_idx(const std::filesystem::path& images, const std::filesystem::path& labels, std::int64_t classes) {
  Dataset set{read_idx_images(images), read_idx_labels(labels, classes)};
  if (set.images.size(0) != set.labels.size(0)) {
    throw Error(fmt::format("{}: byte 4: {} labels, but {} has {} images", labels.string(), set.labels.size(0),
                            images.string(), set.images.size(0)));
  }
  return set;
}

}  // namespace covnoise
