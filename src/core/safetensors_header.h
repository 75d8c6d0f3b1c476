#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace covnoise {

/// The JSON header of a safetensors file, as it is written there: element types are unknown words, shapes and places
/// may be impossible.
struct SafetensorsHeader {
  struct Slot {
    std::string name, dtype;
    std::vector<std::uint64_t> shape, offsets;  // of the data section: begin, end
  };
  std::vector<Slot> slots;
  std::map<std::string, std::string> metadata;
};

/// Reads {"NAME": {"dtype": TEXT, "shape": [...], "data_offsets": [...]}, "__metadata__": {TEXT: TEXT}}, each name and
/// key once, in time and memory proportional to the text. `refuse` is called with the byte of the text and what is
/// wrong, and must throw.
SafetensorsHeader parse_safetensors_header(
    std::string_view text, const std::function<void(std::uint64_t byte, const std::string& what)>& refuse);

}  // namespace covnoise
