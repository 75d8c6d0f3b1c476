#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace covnoise {

using Json = nlohmann::ordered_json;

/// Rows of text for the terminal, documents and the report.
struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;

  std::string to_text() const;
  std::string to_markdown() const;
  Json to_json() const;
  static Table from_json(const Json& json);
};

}  // namespace covnoise
