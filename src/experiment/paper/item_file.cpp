#include "experiment/paper/item_file.h"

#include "covnoise/core/error.h"
#include "covnoise/train/internal/stored_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise::paper {
namespace {

constexpr std::size_t kComparisonColumns = 5;

template <typename Good>
bool is_list(const Json& json, const char* key, Good good) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array() && std::all_of(found->begin(), found->end(), good);
}

bool has_text(const Json& json, const char* key) { return json.contains(key) && json.at(key).is_string(); }
bool has_number(const Json& json, const char* key) { return json.contains(key) && json.at(key).is_number(); }
bool is_text(const Json& json) { return json.is_string(); }

bool is_table(const Json& json) {
  if (!json.is_object() || !has_text(json, "title") || !is_list(json, "header", is_text)) return false;
  const std::size_t columns = json.at("header").size();
  return columns > 0 && is_list(json, "rows", [&](const Json& row) {
           return row.is_array() && row.size() == columns && std::all_of(row.begin(), row.end(), is_text);
         });
}

/// {"mean", "deviation", "seeds"}; null stands for NaN.
bool has_sample(const Json& cell, const char* key) {
  if (!cell.contains(key) || !cell.at(key).is_object()) return false;
  const Json& sample = cell.at(key);
  const auto value = [&](const char* name) {
    return sample.contains(name) && (sample.at(name).is_number() || sample.at(name).is_null());
  };
  return value("mean") && value("deviation") && sample.contains("seeds") && sample.at("seeds").is_number_integer();
}

bool is_cell(const Json& json) {
  return json.is_object() && has_text(json, "row") && has_text(json, "regime") && has_text(json, "incomplete") &&
         has_number(json, "lr") && has_number(json, "weight_decay") && has_sample(json, "test") &&
         has_sample(json, "train") && is_list(json, "test_by_seed", [](const Json& test) { return test.is_number(); });
}

bool has_folders(const Json& json) {
  const auto found = json.find("folders");
  return found == json.end() || (found->is_object() && std::all_of(found->begin(), found->end(), is_text));
}

bool is_item(const Json& json) {
  return has_folders(json) && is_list(json, "tables", is_table) && is_list(json, "notes", is_text) &&
         is_list(json, "figures", is_text) && (!json.contains("quick") || json.at("quick").is_boolean());
}

}  // namespace

Json read_item(const std::filesystem::path& path) {
  auto json = kept_json(path);
  require(is_item(json), fmt::format("{} was not written by covnoise paper; run covnoise paper again", path.string()));
  return json;
}

bool has_comparisons(const Json& item) {
  const Json& tables = item.at("tables");
  const auto compares = [](const Json& table) { return table.at("header").size() >= kComparisonColumns; };
  return !tables.empty() && std::all_of(tables.begin() + 1, tables.end(), compares) && item.contains("numbers") &&
         item.at("numbers").is_object() && is_list(item.at("numbers"), "cells", is_cell);
}

}  // namespace covnoise::paper
