#pragma once
#include "covnoise/data/dataset.h"
#include "datasets/formats/folder_scan.h"

#include <vector>

namespace covnoise {

/// Planes of grey or colour to `channels` planes: grey ones are repeated.
void repeat_planes(const std::vector<std::uint8_t>& planes, std::int64_t channels, std::int64_t area,
                   std::uint8_t* pixels);

/// The images of a folder, read when they are needed. A file that is not as it was when it was scanned is an Error.
class FolderImages final : public ImageReader {
 public:
  /// `scan` is that of `files`, all of one size.
  FolderImages(std::vector<ImageFile> files, std::vector<ScannedImage> scan, std::int64_t channels, const Fit& fit)
      : files_(std::move(files)), scan_(std::move(scan)), channels_(channels), fit_(fit) {}

  std::vector<std::int64_t> sizes() const override;
  void read(std::int64_t index, std::uint8_t* pixels) const override;

 private:
  std::vector<ImageFile> files_;
  std::vector<ScannedImage> scan_;
  std::int64_t channels_;
  Fit fit_;
};

}  // namespace covnoise
