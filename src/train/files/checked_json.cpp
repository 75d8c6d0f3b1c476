#include "train/files/checked_json.h"

#include "covnoise/train/internal/tensorboard.h"

#include <fmt/format.h>

namespace covnoise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kChecksum = "crc";

std::string checksum_of(const Json& object) { return fmt::format("{:08x}", crc32c(object.dump())); }

bool looks_like_a_checksum(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

void add_checksum(Json& object) { object[kChecksum] = checksum_of(object); }

Checksum take_checksum(Json& object) {
  const auto found = object.find(kChecksum);
  if (found == object.end()) {
    const bool renamed = !object.empty() && looks_like_a_checksum(object.back());
    return renamed ? Checksum::kWrong : Checksum::kMissing;
  }
  const Json there = *found;
  object.erase(found);
  return there == checksum_of(object) ? Checksum::kRight : Checksum::kWrong;
}

}  // namespace covnoise
