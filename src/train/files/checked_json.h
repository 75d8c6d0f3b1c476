#pragma once
#include <nlohmann/json.hpp>

namespace covnoise {

/// Adds the last key of a checked object, `crc`: the CRC-32C of its text without the key, as 8 hexadecimal digits.
void add_checksum(nlohmann::ordered_json& object);

enum class Checksum {
  kRight,
  kMissing,  ///< written by an earlier version
  kWrong,
};

/// Compares an object with its checksum and removes the key. Where a flipped bit hit the name of the key, the checksum
/// is wrong, not missing.
Checksum take_checksum(nlohmann::ordered_json& object);

}  // namespace covnoise
