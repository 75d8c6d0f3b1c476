#pragma once
#include "experiment/table.h"

#include <filesystem>

namespace covnoise::paper {

/// The results of an item, as covnoise paper wrote them to results/ITEM/ITEM.json: `tables`, `notes`, `figures`, and
/// `numbers` with the `cells` of an accuracy table, all of the types that the documents use. Otherwise an Error.
Json read_item(const std::filesystem::path& path);

/// Whether these are an accuracy table and its comparisons.
bool has_comparisons(const Json& item);

}  // namespace covnoise::paper
