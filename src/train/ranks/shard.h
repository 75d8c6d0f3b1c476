#pragma once
#include "covnoise/noise/structure.h"
#include "covnoise/train/config.h"

#include <cstdint>

namespace covnoise {

/// The examples of a large batch that one rank takes.
struct Shard {
  std::int64_t first = 0, count = 0, batch = 0;
  double share() const { return static_cast<double>(count) / static_cast<double>(batch); }
  std::int64_t after() const { return batch - first - count; }  ///< examples of the ranks after this one
};

/// Shares a batch out over ranks in their order, so that what is computed does not depend on their number: whole ghost
/// batches to a rank where the network normalises by them, and at least two of M_S examples where the noise compares
/// them (the `ghost` estimator). Shares differ by one ghost batch at most; a batch that has too few for all ranks goes
/// to the first ones, and the others wait.
class Sharding {
 public:
  Sharding(const Config& config, const Needs& needs);
  /// An Error where a batch is no whole number of what must stay together.
  Shard shard(std::int64_t batch, int rank, int ranks) const;
  /// Ranks that have a share.
  std::int64_t active(std::int64_t batch, int ranks) const;

 private:
  std::int64_t unit(std::int64_t batch) const;

  bool batch_statistics_, compares_;
  std::int64_t ghost_batch_, small_batch_;
};

}  // namespace covnoise
