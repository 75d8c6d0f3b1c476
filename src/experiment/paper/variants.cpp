#include "experiment/paper/variants.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/parse_toml.h"
#include "covnoise/train/regimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace covnoise::paper {
namespace {

/// As it would be written after "key=" on the command line.
std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return **text;
  if (const auto* number = node.as_floating_point()) return fmt::to_string(**number);
  if (const auto* list = node.as_array()) return list_text(*list, ", ", text_of);
  std::ostringstream text;
  node.visit([&](const auto& of_type) { text << of_type; });
  return text.str();
}

/// "key=value" for every key of the table and of the tables in it, except the regime.
void add_settings(const toml::table& table, const std::string& prefix, std::vector<std::string>& settings) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (key == "regime") continue;
    if (const auto* inner = node.as_table()) {
      add_settings(*inner, key + ".", settings);
      continue;
    }
    settings.push_back(key + "=" + text_of(node));
  }
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  });
}

Variant read_variant(const std::string& name, const toml::node& node, const std::string& where) {
  const auto known = regime_names();
  const auto is_regime = [&](const std::string& text) {
    return std::find(known.begin(), known.end(), text) != known.end();
  };
  require(is_folder_name(name) && !is_regime(name),
          fmt::format("{}: [{}] must be a name of letters, digits, - and _ that no regime has", where, name));
  const auto* table = node.as_table();
  const auto regime = table ? (*table)["regime"].value_exact<std::string>() : std::nullopt;
  require(regime.has_value(), fmt::format("{}: [{}] must be a table with a regime", where, name));
  require(is_regime(*regime), fmt::format("{}: [{}]: {}", where, name, unknown_name("regime", *regime, known)));
  Variant variant{name, *regime, {}};
  add_settings(*table, "", variant.settings);
  require(!variant.settings.empty(), fmt::format("{}: [{}] sets nothing but the regime", where, name));
  return variant;
}

}  // namespace

std::vector<Variant> read_variant_file(const std::filesystem::path& path) {
  const auto document = parse_toml(read_file(path, kLargestToml), path.string());
  std::vector<std::pair<toml::source_position, Variant>> found;  // toml++ sorts keys by their names
  for (const auto& [name, node] : document) {
    found.emplace_back(name.source().begin, read_variant(std::string(name.str()), node, path.string()));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Variant> variants;
  for (auto& [position, variant] : found) variants.push_back(std::move(variant));
  return variants;
}

std::vector<Variant> read_variants(const std::string& row, const std::filesystem::path& folder) {
  const auto path = folder / "variants" / (row + ".toml");
  return std::filesystem::exists(path) ? read_variant_file(path) : std::vector<Variant>();
}

}  // namespace covnoise::paper
