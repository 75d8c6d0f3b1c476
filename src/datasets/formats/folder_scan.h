#pragma once
#include "covnoise/data/internal/channel_sums.h"
#include "datasets/formats/fit_image.h"
#include "datasets/formats/folder_files.h"

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// What a look at one image of a folder found.
struct ScannedImage {
  std::int64_t channels = 0, height = 0, width = 0;  ///< after `fit`
  std::vector<ChannelSums> sums;                     ///< of each channel
  std::string digest;                                ///< SHA-256 of the pixels, planes [C, H, W]
  std::vector<std::uint8_t> planes;                  ///< the pixels; empty if all of them together are too large
  std::uint64_t bytes = 0;                           ///< of the file
  std::filesystem::file_time_type changed;           ///< when the file was written
  std::string problem;                               ///< one line; empty: the image is good
};

/// Frees the memory of the pixels.
void drop_pixels(ScannedImage& image);

/// One image as planes [C, H, W].
std::vector<std::uint8_t> read_planes(const ImageFile& file, const Fit& fit, ScannedImage& scanned);

/// Decodes all of them, in parallel; keeps the pixels while they take at most `most_bytes`.
std::vector<ScannedImage> scan_images(const std::vector<ImageFile>& files, const Fit& fit, double most_bytes);

}  // namespace covnoise
