#include "train/ranks/shard.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace covnoise {

bool normalises_by_batch(torch::nn::Module& module) { return !normalisation_layers(module).empty(); }

Sharding::Sharding(const Config& config, const Needs& needs, bool batch_statistics)
    : batch_statistics_(batch_statistics),
      compares_(centred(needs.squares)),
      ghost_batch_(config.train.ghost_batch),
      small_batch_(config.noise.small_batch),
      sharpness_batch_(config.train.sharp_micro_batches() ? config.train.sharpness_batch : 1),
      micro_(needs.squares == Squares::kMicro),
      group_(micro_ ? config.train.micro_batch : config.noise.estimator_group()) {}

/// Examples of which the noise compares two or more: of `micro`, whole micro-batches of plain and of sharp steps.
std::int64_t Sharding::group(std::int64_t batch) const {
  return micro_ ? std::lcm(group_, std::min(sharpness_batch_, batch)) : group_;
}

/// Examples that stay together.
std::int64_t Sharding::unit(std::int64_t batch) const {
  std::int64_t together = 1;
  if (batch_statistics_) together = ghost_batch_ > 0 ? std::min(ghost_batch_, batch) : batch;
  if (compares_ && batch > small_batch_) together = std::lcm(together, group(batch));
  together = std::lcm(together, std::min(sharpness_batch_, batch));
  require(
      batch % together == 0,
      fmt::format("a batch of {} examples is not a multiple of the {} examples that must stay on one rank "
                  "(train.ghost_batch = {}, groups of {} that the noise compares, micro-batches of {} for sharpness)",
                  batch, together, ghost_batch_, group(batch), sharpness_batch_));
  return together;
}

std::int64_t Sharding::active(std::int64_t batch, int ranks) const {
  const std::int64_t size = unit(batch), units = batch / size;
  const std::int64_t least = compares_ && batch > small_batch_ ? (size >= 2 * group(batch) ? 1 : 2) : 1;
  return std::clamp<std::int64_t>(units / least, 1, ranks);
}

Shard Sharding::shard(std::int64_t batch, int rank, int ranks) const {
  const std::int64_t size = unit(batch), units = batch / size, takers = active(batch, ranks);
  if (rank >= takers) return {batch, 0, batch};
  const std::int64_t each = units / takers, more = units % takers;  // the first `more` take one more
  const std::int64_t first = rank * each + std::min<std::int64_t>(rank, more);
  return {first * size, (each + (rank < more ? 1 : 0)) * size, batch};
}

}  // namespace covnoise
