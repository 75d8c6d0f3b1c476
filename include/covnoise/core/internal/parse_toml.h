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

/// A list as it is written after "key=" on the command line: texts in quotes, other parts by `text_of`.
inline std::string list_text(const toml::array& list, const char* separator,
                             const std::function<std::string(const toml::node&)>& text_of) {
  std::string text;
  for (const auto& part : list) {
    text += text.empty() ? "[" : separator;
    text += part.is_string() ? quoted_text(**part.as_string()) : text_of(part);
  }
  return text.empty() ? "[]" : text + "]";
}

}  // namespace covnoise
