#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace covnoise {

/// The seeds of "0-2,5": 0, 1, 2 and 5, none of them twice. An Error says what the text must be.
std::vector<std::uint64_t> seeds_of(const std::string& text);

}  // namespace covnoise
