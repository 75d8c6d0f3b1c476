#pragma once
#include "covnoise/train/config.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace covnoise {

/// How long runs take, by the finished ones.
class Durations {
 public:
  /// A run of this configuration took `seconds` for all of its epochs, while up to `side_by_side` runs, itself
  /// included, shared the device; 0: not recorded, taken as 1.
  void add(const Config& config, double seconds, std::size_t side_by_side);

  /// Seconds for the epochs of a run after the first `done`, while up to `side_by_side` runs share the device: those of
  /// the slowest run with the same work per epoch, or, if there is none, with the same network, data, batch and device;
  /// nothing if there is none, either. Of such runs, those count that shared the device with as many others, or, if
  /// there are none, with the next larger number; if all shared it with fewer, their seconds increase in proportion.
  std::optional<double> left(const Config& config, std::int64_t done, std::size_t side_by_side) const;

 private:
  using SecondsPerEpoch = std::map<std::size_t, double>;  // of the slowest, by the number side by side
  std::map<std::string, SecondsPerEpoch> same_work_, similar_;
};

}  // namespace covnoise
