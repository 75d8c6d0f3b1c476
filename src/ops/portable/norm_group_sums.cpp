#include "ops/normalisation/norm_group_shape.h"
#include "ops/portable/portable.h"

#include <ATen/ATen.h>

namespace covnoise::portable {
namespace {

/// Contributions of each example to the weight's gradient, [M, C]; `dbias` those to the bias'.
at::Tensor weight_contributions(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean,
                                const at::Tensor& rstd, const at::Tensor& dbias, const NormGroupShape& s) {
  if (s.by_row()) {
    const auto of_rows = [&](const at::Tensor& values) { return values.reshape({s.examples, s.positions, 1}); };
    return x.to(dbias.scalar_type()).sub(of_rows(mean)).mul_(of_rows(rstd)).mul_(dy).sum(1);
  }
  const auto blocks = [&](const at::Tensor& values) {  // [M, C]
    return values.reshape(
        {s.statistic_rows, s.examples / s.statistic_rows, s.statistic_channels, s.channels / s.statistic_channels});
  };
  const auto of_blocks = [&](const at::Tensor& values) {  // [A, B]
    return values.reshape({s.statistic_rows, 1, s.statistic_channels, 1});
  };
  const auto products = x.to(dbias.scalar_type()).mul(dy).sum(1);  // not rounded to a low precision
  return blocks(products).sub(of_blocks(mean) * blocks(dbias)).mul_(of_blocks(rstd)).reshape({s.examples, s.channels});
}

/// [2, M, C] -> [2, G, C].
at::Tensor summed_by_group(const at::Tensor& by_example, const NormGroupShape& s) {
  if (s.group == 1) return by_example;
  const std::int64_t whole = s.examples / s.group, split = whole * s.group;
  const auto sums = by_example.narrow(1, 0, split).reshape({2, whole, s.group, s.channels}).sum(2);
  if (split == s.examples) return sums;
  return at::cat({sums, by_example.narrow(1, split, s.examples - split).sum(1, true)}, 1);
}

/// [2, G, C] -> sum_j (m / m_j) S_j^2, [2, C].
at::Tensor weighted_squares(const at::Tensor& sums, const NormGroupShape& s) {
  auto squares = sums.square();
  if (s.last_weight != 1) squares.select(1, -1).mul_(s.last_weight);
  return squares.sum(1);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_group_sums(const at::Tensor& dy, const at::Tensor& x,
                                                               const at::Tensor& mean, const at::Tensor& rstd,
                                                               std::int64_t examples_per_group) {
  const NormGroupShape shape = norm_group_shape(dy, x, mean, rstd, examples_per_group);
  const auto type = at::promote_types(at::promote_types(x.scalar_type(), dy.scalar_type()), at::kFloat);
  const auto dbias = dy.sum(1, false, type).contiguous();
  const auto dweight = weight_contributions(dy, x, mean.to(type), rstd.to(type), dbias, shape);
  const auto sums = summed_by_group(at::stack({dweight, dbias}), shape);
  const auto gradients = sums.sum(1);
  return {sums, gradients, at::stack({gradients, weighted_squares(sums, shape)}, 1)};
}

}  // namespace covnoise::portable
