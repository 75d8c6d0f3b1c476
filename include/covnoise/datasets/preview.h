#pragma once
#include "covnoise/data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace covnoise {

struct PreviewOptions {
  std::string split = "train";  // or "test"
  std::int64_t most_classes = 20;
  std::int64_t per_class = 10;  // images in a row: the first of the class
};

/// Writes a labelled contact sheet as PNG: one row for each class, its name on the left.
void write_preview(const DataSource& source, const std::filesystem::path& file, const PreviewOptions& options = {});

}  // namespace covnoise
