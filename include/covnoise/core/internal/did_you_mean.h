#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace covnoise {

/// How many letters must be inserted, removed or replaced to get from one to the other.
int edit_distance(std::string_view a, std::string_view b);

/// "unknown regime lbb (did you mean lb?); known: sb, lb": the line for a name that no table has.
std::string unknown_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known);

}  // namespace covnoise
