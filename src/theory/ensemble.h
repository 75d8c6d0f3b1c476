#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace covnoise::theory {

/// Many trajectories of theta <- theta + a_k (B theta + C xi), xi ~ N(0, I), theta [d, n].
struct EnsembleOptions {
  std::int64_t trajectories = 4096;
  std::uint64_t seed = 1;
  std::vector<std::int64_t> record;    ///< steps after which theta is passed on, ascending; the last one ends the run
  at::ScalarType dtype = at::kDouble;  ///< of theta, xi and the products
};

constexpr std::int64_t kEnsembleBlock = 128;  ///< trajectories per block; the noise, and so the results, depend on it

inline std::int64_t ensemble_blocks(std::int64_t trajectories) {
  return (trajectories + kEnsembleBlock - 1) / kEnsembleBlock;
}

/// Receives theta [d, block] of a block after options.record[i] steps. Called concurrently for different blocks.
using Visit = std::function<void(std::int64_t block, std::size_t i, const at::Tensor& theta)>;

/// Trajectories are simulated in blocks that stay in a core's cache for all steps, so threads never wait for each
/// other. theta and xi are the halves of one matrix [2 d, block]: a step is one product with [B, C] and one fill of xi.
/// The numbers do not depend on the number of threads.
void simulate_ensemble(const at::Tensor& theta_0, const at::Tensor& B, const at::Tensor& C,
                       const std::function<double(std::int64_t)>& rate, const EnsembleOptions& options,
                       const Visit& visit);

}  // namespace covnoise::theory
