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

std::vector<std::string> rows_of(const toml::table& document, const std::string& where) {
  const auto* list = document["rows"].as_array();
  std::vector<std::string> rows;
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    const auto row = list->get(i)->value_exact<std::string>();
    rows.push_back(row.value_or(""));
  }
  require(!rows.empty() && std::find(rows.begin(), rows.end(), "") == rows.end(),
          fmt::format("{}: begin it with the rows that have these variants: rows = [\"NAME\", ...]", where));
  return rows;
}

/// The files of variants, in the order of their names.
std::vector<std::filesystem::path> variant_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder / "variants")) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "variants")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void add_variant(Row& row, const Variant& variant, const std::filesystem::path& path) {
  const auto same = [&](const Variant& other) { return other.name == variant.name; };
  require(std::none_of(row.variants.begin(), row.variants.end(), same),
          fmt::format("{}: {} has another variant [{}], in a file before this one", path.string(), row.recipe,
                      variant.name));
  row.variants.push_back(variant);
}

}  // namespace

VariantFile read_variant_file(const std::filesystem::path& path) {
  const auto document = parse_toml(read_file(path, kLargestToml), path.string());
  VariantFile file{rows_of(document, path.string()), {}};
  std::vector<std::pair<toml::source_position, Variant>> found;  // toml++ sorts keys by their names
  for (const auto& [name, node] : document) {
    if (name.str() == "rows") continue;
    found.emplace_back(name.source().begin, read_variant(std::string(name.str()), node, path.string()));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [position, variant] : found) file.variants.push_back(std::move(variant));
  return file;
}

void add_variants(std::vector<Row>& rows, const std::vector<std::string>& known, const std::filesystem::path& folder) {
  for (const auto& path : variant_files(folder)) {
    const auto file = read_variant_file(path);
    for (const auto& name : file.rows) {
      require(std::find(known.begin(), known.end(), name) != known.end(),
              fmt::format("{}: {}", path.string(), unknown_name("row", name, known)));
    }
    for (auto& row : rows) {
      if (std::find(file.rows.begin(), file.rows.end(), row.recipe) == file.rows.end()) continue;
      for (const auto& variant : file.variants) add_variant(row, variant, path);
    }
  }
}

}  // namespace covnoise::paper
