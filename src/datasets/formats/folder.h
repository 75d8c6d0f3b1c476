#pragma once
#include "covnoise/data/dataset.h"

#include <filesystem>

namespace covnoise {

/// A user's own images: ROOT/train/CLASS/*.png|jpg and ROOT/test/CLASS/*, the same classes in both, all images of one
/// size and channel count. Classes and files are sorted by name.
DataSource read_folder(const std::filesystem::path& root);

}  // namespace covnoise
