#pragma once
#include "experiment/paper/items.h"

#include <filesystem>

namespace covnoise::paper {

/// The variants of a row, <folder>/variants/<row>.toml, in the order of the file; none if there is no such file. A
/// table for each, with the regime that it varies and the keys that it sets:
///
///     [lb-diag-x2]
///     regime = "lb-diag"
///     noise.scale = 2.0
std::vector<Variant> read_variants(const std::string& row, const std::filesystem::path& folder);
std::vector<Variant> read_variant_file(const std::filesystem::path& path);

}  // namespace covnoise::paper
