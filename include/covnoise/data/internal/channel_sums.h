#pragma once
#include "covnoise/data/dataset.h"

#include <cstdint>
#include <vector>

namespace covnoise {

/// Sums over pixels and over their squares: integers, so that neither order nor threads matter.
struct ChannelSums {
  std::uint64_t values = 0, squares = 0;
  void add(const ChannelSums& other) {
    values += other.values;
    squares += other.squares;
  }
};

ChannelSums sum_plane(const std::uint8_t* pixels, std::int64_t area);

/// From the sums of each channel over `pixels` pixels.
ChannelStatistics statistics_of(const std::vector<ChannelSums>& channels, double pixels);

}  // namespace covnoise
