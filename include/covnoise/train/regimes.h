#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace covnoise {

/// The regimes of the paper, in the order of its tables, and ours.
std::vector<std::string> regime_names();

/// The recipe fragment (TOML) that makes a regime; an unknown name is an Error that lists the known ones.
std::string_view regime_fragment(std::string_view name);

/// What a regime is, in a few words.
std::string_view regime_summary(std::string_view name);

}  // namespace covnoise
