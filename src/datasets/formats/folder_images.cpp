#include "datasets/formats/folder_images.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {

void repeat_planes(const std::vector<std::uint8_t>& planes, std::int64_t channels, std::int64_t area,
                   std::uint8_t* pixels) {
  const auto size = static_cast<std::int64_t>(planes.size());
  for (std::int64_t start = 0; start < channels * area; start += size)
    std::copy(planes.begin(), planes.end(), pixels + start);
}

std::vector<std::int64_t> FolderImages::sizes() const {
  return {static_cast<std::int64_t>(files_.size()), channels_, scan_.front().height, scan_.front().width};
}

void FolderImages::read(std::int64_t index, std::uint8_t* pixels) const {
  const auto& file = files_.at(static_cast<std::size_t>(index));
  const auto& expected = scan_[static_cast<std::size_t>(index)];
  ScannedImage now;
  const auto planes = read_planes(file, fit_, now);
  require(now.bytes == expected.bytes && now.changed == expected.changed && now.channels == expected.channels &&
              now.height == expected.height && now.width == expected.width,
          fmt::format("{} was changed while it was in use; restore it and resume the run", file.path.string()));
  repeat_planes(planes, channels_, now.height * now.width, pixels);
}

}  // namespace covnoise
