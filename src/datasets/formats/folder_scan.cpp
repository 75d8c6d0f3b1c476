#include "datasets/formats/folder_scan.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <atomic>

namespace covnoise {
namespace {

/// Interleaved pixels to planes [C, H, W].
std::vector<std::uint8_t> to_planes(const Image& image) {
  const std::int64_t area = image.width * image.height;
  std::vector<std::uint8_t> planes(image.pixels.size());
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t i = 0; i < area; ++i) planes[c * area + i] = image.pixels[i * image.channels + c];
  }
  return planes;
}

void look_at(const ImageFile& file, const Fit& fit, ScannedImage& scanned) {
  scanned.planes = read_planes(file, fit, scanned);
  const std::int64_t area = scanned.height * scanned.width;
  for (std::int64_t c = 0; c < scanned.channels; ++c)
    scanned.sums.push_back(sum_plane(scanned.planes.data() + c * area, area));
  scanned.digest = sha256_hex({reinterpret_cast<const char*>(scanned.planes.data()), scanned.planes.size()});
}

}  // namespace

void drop_pixels(ScannedImage& image) { std::vector<std::uint8_t>().swap(image.planes); }

std::vector<std::uint8_t> read_planes(const ImageFile& file, const Fit& fit, ScannedImage& scanned) {
  std::error_code error;
  scanned.changed = std::filesystem::last_write_time(file.path, error);
  scanned.bytes = std::filesystem::file_size(file.path, error);
  Image image = read_image(file.path);
  try {
    image = fit_image(std::move(image), fit);
  } catch (const Error& problem) {
    throw Error(fmt::format("{}: {}", file.path.string(), problem.what()));
  }
  scanned.channels = image.channels;
  scanned.height = image.height;
  scanned.width = image.width;
  return to_planes(image);
}

std::vector<ScannedImage> scan_images(const std::vector<ImageFile>& files, const Fit& fit, double most_bytes) {
  std::vector<ScannedImage> images(files.size());
  std::atomic<std::uint64_t> bytes{0};
  at::parallel_for(0, static_cast<std::int64_t>(files.size()), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        look_at(files[i], fit, images[i]);
        const std::size_t size = images[i].planes.size();
        if (static_cast<double>(bytes += size) > most_bytes) drop_pixels(images[i]);
      } catch (const Error& error) {
        images[i].problem = error.what();
      }
    }
  });
  return images;
}

}  // namespace covnoise
