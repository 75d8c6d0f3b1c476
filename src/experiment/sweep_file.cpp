#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/parse_toml.h"
#include "covnoise/experiment/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace covnoise {
namespace {

const std::vector<std::string> kSweepKeys = {"recipe", "out", "table", "set", "vary", "grid"};

/// A TOML file with the text of its values: names of runs and the lines of a saved table have 5e-4 as it was written,
/// not as 0.0005.
class SweepDocument {
 public:
  explicit SweepDocument(const std::filesystem::path& path) : name_(path.string()) {
    const std::string text = read_file(path, kLargestToml);
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.push_back(line);
    table_ = parse_toml(text, name_);
  }

  bool is_sweep() const {
    return std::any_of(kSweepKeys.begin(), kSweepKeys.end(), [&](const auto& key) { return table_.contains(key); });
  }

  SweepFile read() const {
    for (const auto& [key, node] : table_) {
      require(std::find(kSweepKeys.begin(), kSweepKeys.end(), key.str()) != kSweepKeys.end(),
              fmt::format("{}: {}", where(key.source()), unknown_name("key", key.str(), kSweepKeys)));
    }
    SweepFile file;
    if (table_.contains("recipe")) file.options.recipe = std::filesystem::path(name_).parent_path() / text_at("recipe");
    file.out = text_at("out");
    file.table = text_at("table");
    for (const auto& [key, node] : entries(table_at("set"))) file.options.set.push_back(key + "=" + text_of(*node));
    file.options.vary = axes(table_at("vary"));
    for (const auto* grid : grids()) file.options.grids.push_back(fmt::to_string(fmt::join(axes(grid), " ")));
    return file;
  }

 private:
  using Entry = std::pair<std::string, const toml::node*>;

  std::string where(const toml::source_region& source) const { return toml_place(name_, source); }

  std::string text_at(const char* key) const {
    const auto* node = table_.get(key);
    require(!node || node->is_string(),
            fmt::format("{}: {} must be text in quotes", node ? where(node->source()) : name_, key));
    return node ? **node->as_string() : std::string();
  }

  const toml::table* table_at(const char* key) const {
    const auto* node = table_.get(key);
    require(!node || node->is_table(),
            fmt::format("{}: {} must be a table", node ? where(node->source()) : name_, key));
    return node ? node->as_table() : nullptr;
  }

  std::vector<const toml::table*> grids() const {
    std::vector<const toml::table*> found;
    const auto* node = table_.get("grid");
    if (!node) return found;
    require(node->is_array_of_tables(), fmt::format("{}: write each grid as [[grid]]", where(node->source())));
    for (const auto& grid : *node->as_array()) found.push_back(grid.as_table());
    return found;
  }

  /// "train.lr" and its node for every key of a table and of the tables in it, in the order of the file.
  std::vector<Entry> entries(const toml::table* table, const std::string& prefix = "") const {
    std::vector<Entry> found;
    if (!table) return found;
    for (const auto& [name, node] : *table) {
      const std::string key = prefix + std::string(name.str());
      if (const auto* inner = node.as_table()) {
        const auto more = entries(inner, key + ".");
        found.insert(found.end(), more.begin(), more.end());
      } else {
        check_key(key, name.source());
        found.emplace_back(key, &node);
      }
    }
    const auto before = [](const Entry& a, const Entry& b) {
      return a.second->source().begin < b.second->source().begin;
    };
    std::sort(found.begin(), found.end(), before);
    return found;
  }

  void check_key(const std::string& key, const toml::source_region& source) const {
    const auto keys = config_keys();
    if (key == "data" || std::find(keys.begin(), keys.end(), key) != keys.end()) return;
    std::vector<std::string> near;  // those of the same section: a list that can be read
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(near), [&](const std::string& known) {
      return known.substr(0, known.find('.')) == key.substr(0, key.find('.'));
    });
    throw Error(fmt::format("{}: {}", where(source), unknown_name("key", key, near.empty() ? keys : near)));
  }

  /// "key=value,value" for every key; an array lists the values, anything else is the only one.
  std::vector<std::string> axes(const toml::table* table) const {
    std::vector<std::string> found;
    for (const auto& [key, node] : entries(table)) {
      std::vector<std::string> values;
      if (const auto* list = node->as_array()) {
        for (const auto& value : *list) values.push_back(value_of_axis(value));
      } else {
        values.push_back(value_of_axis(*node));
      }
      require(!values.empty(), fmt::format("{}: {} needs at least one value", where(node->source()), key));
      found.push_back(fmt::format("{}={}", key, fmt::join(values, ",")));
    }
    return found;
  }

  std::string value_of_axis(const toml::node& node) const {
    std::string text = text_of(node);
    require(!text.empty() && text.find_first_of(node.is_string() ? ", \t\n" : " \t\n") == std::string::npos,
            fmt::format("{}: a value to try must not be empty or contain a comma or a space", where(node.source())));
    return text;
  }

  /// As it would be written after "key=" on the command line.
  std::string text_of(const toml::node& node) const {
    if (const auto* text = node.as_string()) return **text;
    const auto* list = node.as_array();
    if (!list) return source_text(node.source());
    return list_text(*list, ",", [this](const toml::node& part) { return text_of(part); });
  }

  /// Of a value on one line. Columns count characters from 1, not bytes.
  std::string source_text(const toml::source_region& source) const {
    std::string text;
    std::uint32_t column = 0;
    for (const char c : lines_.at(source.begin.line - 1)) {
      if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++column;
      if (column >= source.begin.column && column < source.end.column) text += c;
    }
    return text;
  }

  std::string name_;
  std::vector<std::string> lines_;
  toml::table table_;
};

}  // namespace

std::optional<SweepFile> read_sweep_file(const std::filesystem::path& path) {
  const SweepDocument document(path);
  if (!document.is_sweep()) return std::nullopt;
  return document.read();
}

}  // namespace covnoise
