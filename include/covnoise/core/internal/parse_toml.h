#pragma once
#include "covnoise/core/error.h"
#include "covnoise/core/internal/toml_text.h"

#include <toml++/toml.h>

#include <functional>
#include <string>
#include <string_view>

namespace covnoise {

/// NAME:LINE:COLUMN
inline std::string toml_place(const std::string& name, const toml::source_region& source) {
  return name + ":" + std::to_string(source.begin.line) + ":" + std::to_string(source.begin.column);
}

/// The text of the file `name`. An Error has the place and, after what toml++ says of it, `advice` on that.
inline toml::table parse_toml(std::string_view text, const std::string& name,
                              const std::function<std::string(std::string_view)>& advice = {}) {
  if (const auto problem = toml_problem(text); !problem.empty()) throw Error(name + ":" + problem);
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    const std::string_view description = error.description();
    throw Error(toml_place(name, error.source()) + ": " + std::string(description) +
                (advice ? advice(description) : ""));
  }
}

}  // namespace covnoise
