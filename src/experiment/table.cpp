#include "experiment/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace covnoise {
namespace {

/// In characters of UTF-8, as fmt counts them.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Escapes bars, which would end the cell.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

}  // namespace

std::string Table::to_text() const {
  std::vector<std::size_t> widths(header.size());
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  };
  widen(header);
  for (const auto& row : rows) widen(row);
  std::string text = title.empty() ? "" : title + "\n";
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) line += fmt::format("{:<{}}  ", cells[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add(header);
  for (const auto& row : rows) add(row);
  return text;
}

std::string Table::to_markdown() const {
  std::string text = title.empty() ? "" : fmt::format("{}\n\n", title);
  const auto add = [&](std::vector<std::string> cells) {
    for (auto& cell : cells) cell = escaped(cell);
    text += fmt::format("| {} |\n", fmt::join(cells, " | "));
  };
  add(header);
  add(std::vector<std::string>(header.size(), "---"));
  for (const auto& row : rows) add(row);
  return text;
}

Json Table::to_json() const { return {{"title", title}, {"header", header}, {"rows", rows}}; }

Table Table::from_json(const Json& json) {
  return {json.at("title").get<std::string>(), json.at("header").get<std::vector<std::string>>(),
          json.at("rows").get<std::vector<std::vector<std::string>>>()};
}

}  // namespace covnoise
