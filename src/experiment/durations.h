#pragma once
#include "covnoise/train/config.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace covnoise {

/// How long runs take, by the finished ones.
class Durations {
 public:
  /// A run of this configuration took `seconds` for all of its epochs.
  void add(const Config& config, double seconds);

  /// Seconds for the epochs of a run after the first `done`, as long as the slowest run with the same work per epoch
  /// took; if there is none, the slowest of the same network, data, batch and device. Nothing if there is none, either.
  std::optional<double> left(const Config& config, std::int64_t done) const;

 private:
  using SecondsPerEpoch = std::map<std::string, double>;  // the largest
  SecondsPerEpoch same_work_, similar_;
};

}  // namespace covnoise
