#pragma once
#include "covnoise/noise/structure.h"
#include "covnoise/train/config.h"

#include <torch/nn/module.h>

#include <cstdint>

namespace covnoise {

/// The examples of a large batch that one rank processes.
struct Shard {
  std::int64_t first = 0, count = 0, batch = 0;
  double share() const { return static_cast<double>(count) / static_cast<double>(batch); }
  std::int64_t after() const { return batch - first - count; }  ///< examples of the ranks after this one
};

/// Whether a network normalises by batch statistics.
bool normalises_by_batch(torch::nn::Module& module);

/// Divides a batch among the ranks in their order, so that results do not depend on their number: whole ghost batches
/// per rank if the network normalises by them, whole micro-batches with train.sharpness, and at least two groups of the
/// `ghost` estimator, or two micro-batches of `micro`, where the noise uses it. Shards differ by at most one ghost
/// batch; a batch that has too few for all ranks goes to the first ones, and the others wait.
class Sharding {
 public:
  Sharding(const Config& config, const Needs& needs, bool batch_statistics);
  /// An Error if a batch is not a multiple of what must stay together.
  Shard shard(std::int64_t batch, int rank, int ranks) const;
  /// Number of ranks that get a shard.
  std::int64_t active(std::int64_t batch, int ranks) const;

 private:
  std::int64_t unit(std::int64_t batch) const;
  std::int64_t group(std::int64_t batch) const;

  bool batch_statistics_, compares_;
  std::int64_t ghost_batch_, small_batch_, sharpness_batch_;  // the last: 1 without sharpness
  bool micro_;
  std::int64_t group_;  // examples of the estimator's group; of `micro` those of a plain micro-batch
};

}  // namespace covnoise
