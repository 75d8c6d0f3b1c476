#include "covnoise/train/internal/tensorboard.h"

#include <array>
#include <cstdlib>
#include <cstring>

namespace covnoise {
namespace {

constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // the polynomial, bits reversed

std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}

/// TFRecords store CRCs rotated and shifted, so that the CRC of data that holds CRCs stays meaningful.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Protocol buffers: a key is (field number << 3 | wire type) with types 0 varint, 1 eight bytes, 2 length and bytes, 5
// four bytes.

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(int field, int type) { return varint(static_cast<std::uint64_t>(field) << 3 | type); }

std::string bytes_field(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}

/// google.protobuf.Value: number_value = 2 (double), string_value = 3, bool_value = 4.
std::string hparam_value(const std::string& toml) {
  if (toml == "true" || toml == "false") return key(4, 0) + varint(toml == "true" ? 1 : 0);
  if (toml.size() >= 2 && toml.front() == '"') return bytes_field(3, toml.substr(1, toml.size() - 2));
  char* end = nullptr;
  const double number = std::strtod(toml.c_str(), &end);
  return *end == '\0' && !toml.empty() ? key(2, 1) + little_endian(number) : bytes_field(3, toml);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string tensorboard_record(std::string_view data) {
  const std::string length = little_endian<std::uint64_t>(data.size());
  return length + little_endian(masked_crc(length)) + std::string(data) + little_endian(masked_crc(data));
}

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5 (Summary).
std::string tensorboard_header(double wall_time) {
  return tensorboard_record(key(1, 1) + little_endian(wall_time) + bytes_field(3, "brain.Event:2"));
}

// Summary: value = 1, repeated; Summary.Value: tag = 1 (string), simple_value = 2 (float).
std::string tensorboard_scalars(double wall_time, std::int64_t step,
                                const std::vector<std::pair<std::string, float>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += bytes_field(1, bytes_field(1, tag) + key(2, 5) + little_endian(value));
  }
  return tensorboard_record(key(1, 1) + little_endian(wall_time) + key(2, 0) +
                            varint(static_cast<std::uint64_t>(step)) + bytes_field(5, summary));
}

// Summary.Value: tag = 1, metadata = 9; SummaryMetadata: plugin_data = 1 (plugin_name = 1, content = 2). The content is
// HParamsPluginData: session_start_info = 3, with hparams = 1 (a map: key = 1, value = 2) and start_time_secs = 5.
std::string tensorboard_hparams(double wall_time, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string start;
  for (const auto& [name, toml] : values)
    start += bytes_field(1, bytes_field(1, name) + bytes_field(2, hparam_value(toml)));
  start += key(5, 1) + little_endian(wall_time);
  const std::string plugin = bytes_field(1, "hparams") + bytes_field(2, bytes_field(3, start));
  const std::string value = bytes_field(1, "_hparams_/session_start_info") + bytes_field(9, bytes_field(1, plugin));
  return tensorboard_record(key(1, 1) + little_endian(wall_time) + bytes_field(5, bytes_field(1, value)));
}

}  // namespace covnoise
