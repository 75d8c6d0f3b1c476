#pragma once
#include "experiment/paper/items.h"

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::paper {

/// A file of variants: the rows that have them, and a table for each with the regime that it varies and the keys that
/// it sets:
///
///     rows = ["mnist-f1", "mnist-lenet"]
///
///     [lb-diag-x2]
///     regime = "lb-diag"
///     noise.scale = 2.0
struct VariantFile {
  std::vector<std::string> rows;
  std::vector<Variant> variants;  ///< in the order of the file
};

VariantFile read_variant_file(const std::filesystem::path& path);

/// Gives each row the variants of the files <folder>/variants/*.toml that list it, in the order of the files' names.
/// Refused: a file that lists a row that is not one of `known`, and two variants of one name for the same row.
void add_variants(std::vector<Row>& rows, const std::vector<std::string>& known, const std::filesystem::path& folder);

}  // namespace covnoise::paper
