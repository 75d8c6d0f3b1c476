#pragma once
#include <string>
#include <string_view>

namespace covnoise {

constexpr std::size_t kLargestToml = std::size_t{1} << 20;  ///< bytes

/// What is wrong with a TOML text that must not reach toml++ (LINE:COLUMN: ...), empty if nothing is: control
/// characters, characters other than ASCII outside of quotes or after a backslash, quotes, brackets and equals signs
/// inside a bare word, all of which TOML forbids and toml++ 3.3 has undefined behaviour for; keys of very many parts,
/// whose tables it nests without limit; a text too large for a configuration.
std::string toml_problem(std::string_view text);

/// A text as TOML writes it, in double quotes.
std::string quoted_text(std::string_view text);

}  // namespace covnoise
