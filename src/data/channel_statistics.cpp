#include "covnoise/data/internal/channel_sums.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstdint>
#include <mutex>

namespace covnoise {

ChannelSums sum_plane(const std::uint8_t* pixels, std::int64_t area) {
  ChannelSums sums;
  constexpr std::int64_t kBlock = 1 << 15;  // 2^15 * 255^2 < 2^32: the inner sums stay in 32 bits, which vectorises
  for (std::int64_t begin = 0; begin < area; begin += kBlock) {
    std::uint32_t values = 0, squares = 0;
    for (std::int64_t i = begin; i < std::min(area, begin + kBlock); ++i) {
      const std::uint32_t v = pixels[i];
      values += v;
      squares += v * v;
    }
    sums.values += values;
    sums.squares += squares;
  }
  return sums;
}

ChannelStatistics statistics_of(const std::vector<ChannelSums>& channels, double pixels) {
  ChannelStatistics result;
  for (const ChannelSums& sums : channels) {
    const double mean = static_cast<double>(sums.values) / pixels;
    const double variance = static_cast<double>(sums.squares) / pixels - mean * mean;
    result.mean.push_back(mean / 255);
    result.std.push_back(variance > 0 ? std::sqrt(variance) / 255 : 1);
  }
  return result;
}

ChannelStatistics channel_statistics(const at::Tensor& images) {
  TORCH_CHECK(images.dim() == 4 && images.scalar_type() == at::kByte && images.numel() > 0,
              "channel_statistics needs uint8 images [N, C, H, W]");
  const at::Tensor dense = images.contiguous();
  const std::int64_t channels = dense.size(1), area = dense.size(2) * dense.size(3);
  const auto* pixels = dense.data_ptr<std::uint8_t>();
  std::vector<ChannelSums> total(static_cast<std::size_t>(channels));
  std::mutex mutex;
  at::parallel_for(0, dense.size(0), 1024, [&](std::int64_t begin, std::int64_t end) {
    std::vector<ChannelSums> part(total.size());
    for (std::int64_t plane = begin * channels; plane < end * channels; ++plane) {
      part[plane % channels].add(sum_plane(pixels + plane * area, area));
    }
    const std::lock_guard<std::mutex> lock(mutex);
    for (std::size_t c = 0; c < total.size(); ++c) total[c].add(part[c]);
  });
  return statistics_of(total, static_cast<double>(dense.size(0) * area));
}

}  // namespace covnoise
