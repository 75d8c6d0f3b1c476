#pragma once
#include "covnoise/data/dataset.h"
#include "datasets/formats/fit_image.h"

#include <filesystem>

namespace covnoise {

/// How a folder is read.
struct FolderOptions {
  Fit fit;            ///< brings all images to one size
  double memory = 4;  ///< GiB; a larger set is read when its images are needed
};

/// A user's own images: ROOT/train/CLASS/*.png|jpg|webp and ROOT/test/CLASS/* (or ROOT/val/CLASS/*), the same classes
/// in both. All images have one size, or get it by `fit`. If some have colours, grey ones get three equal channels.
/// Classes and files are sorted by name. What is no image is passed over, and counted in the notes; all images that
/// cannot be read are in the message of one Error.
DataSource read_folder(const std::filesystem::path& root, const FolderOptions& options = {});

}  // namespace covnoise
