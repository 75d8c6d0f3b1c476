#pragma once
#include "covnoise/data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace covnoise {

/// Which images a preview shows.
struct PreviewOptions {
  std::string split = "train";     ///< or "test"
  std::int64_t most_classes = 20;  ///< rows of the sheet
  std::int64_t per_class = 10;     ///< images per row: the first of the class
};

/// Writes a labelled contact sheet: one row per class, with its name on the left. A PNG; an SVG where `file` ends in
/// .svg, or in place of the PNG (with that ending) if plot::png_available() is false. Returns the path written.
std::filesystem::path write_preview(const DataSource& source, const std::filesystem::path& file,
                                    const PreviewOptions& options = {});

}  // namespace covnoise
