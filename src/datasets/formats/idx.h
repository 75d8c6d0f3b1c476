#pragma once
#include "covnoise/data/dataset.h"

#include <cstdint>
#include <filesystem>

namespace covnoise {

/// Reads MNIST's IDX files, plain or gzip: a big-endian header (magic number, dimensions), then unsigned bytes.
Dataset read_idx(const std::filesystem::path& images, const std::filesystem::path& labels, std::int64_t classes);

at::Tensor read_idx_images(const std::filesystem::path& path);                        // uint8 [N, 1, H, W]
at::Tensor read_idx_labels(const std::filesystem::path& path, std::int64_t classes);  // int64 [N]

}  // namespace covnoise
