#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace covnoise {

/// The sizes of a call of norm_group_sums, checked.
struct NormGroupShape {
  std::int64_t examples, positions, channels, group;  ///< group: at most `examples`
  std::int64_t statistic_rows, statistic_channels;    ///< [A, B], the sizes of mean and rstd
  double last_weight;                                 ///< m / m_j of the last group, which may be smaller

  std::int64_t rows() const { return examples * positions; }
  std::int64_t groups() const { return (examples + group - 1) / group; }
  bool by_row() const { return statistic_channels == 1 && statistic_rows == rows(); }
};

inline NormGroupShape norm_group_shape(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean,
                                       const at::Tensor& rstd, std::int64_t examples_per_group) {
  TORCH_CHECK(x.dim() == 3 && x.numel() > 0 && dy.sizes() == x.sizes(),
              "norm_group_sums takes dy and x [M, P, C], neither empty, not ", dy.sizes(), " and ", x.sizes());
  TORCH_CHECK(examples_per_group > 0, "norm_group_sums: groups of ", examples_per_group, " examples");
  TORCH_CHECK(mean.dim() == 2 && mean.numel() > 0 && mean.sizes() == rstd.sizes(),
              "norm_group_sums takes mean and rstd [A, B], not ", mean.sizes(), " and ", rstd.sizes());
  const std::int64_t rest = x.size(0) % examples_per_group, last = rest == 0 ? examples_per_group : rest;
  const NormGroupShape shape{x.size(0),
                             x.size(1),
                             x.size(2),
                             std::min(examples_per_group, x.size(0)),
                             mean.size(0),
                             mean.size(1),
                             static_cast<double>(examples_per_group) / static_cast<double>(last)};
  TORCH_CHECK(
      shape.by_row() || (shape.examples % shape.statistic_rows == 0 && shape.channels % shape.statistic_channels == 0),
      "norm_group_sums: statistics ", mean.sizes(), " are neither one per row of ", x.sizes(),
      " nor one per as many examples and channels");
  return shape;
}

}  // namespace covnoise
