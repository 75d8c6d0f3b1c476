#pragma once
#include "cuda/types.h"

#include <cstddef>

namespace covnoise::cuda {

/// A call of norm_group_sums (covnoise/ops/norm_group_sums.h). The same bits every time. Fewer than 2^30 rows M P.
struct NormSums {
  int examples = 0, positions = 0, channels = 0, group = 0;
  float last_weight = 1;  ///< m / m_j of the last group
  Scalar scalar = Scalar::kBFloat16;
  bool planes = false;  ///< dy and x are [M, C, P] in memory instead of [M, P, C]; not with statistics by row
  const void *dy = nullptr, *x = nullptr;
  const float *mean = nullptr, *rstd = nullptr;  ///< [statistic_rows, statistic_channels]
  int statistic_rows = 0, statistic_channels = 0;
  float *sums = nullptr, *gradients = nullptr, *moments = nullptr;  ///< [2, G, C], [2, C], [2, 2, C]
  float* workspace = nullptr;                                       ///< norm_sums_workspace() bytes

  int groups() const { return divide_up(examples, group); }
  bool by_row() const {
    return statistic_channels == 1 && static_cast<long long>(examples) * positions == statistic_rows;
  }
};
std::size_t norm_sums_workspace(const NormSums& call);
void norm_sums(const NormSums& call, cudaStream_t stream);

}  // namespace covnoise::cuda
