#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace covnoise {

/// What the groups of examples add to the gradients of a normalisation's weight and bias.
struct NormGroupSums {
  at::Tensor sums;       ///< S [2, G, C]: of the weight, of the bias
  at::Tensor gradients;  ///< [2, C]: sum_j S_j of each
  at::Tensor moments;    ///< [2, 2, C]: sum_j S_j and sum_j (m / m_j) S_j^2 of each, m_j the examples of group j
};

/// The backward pass of y = weight xhat + bias, xhat = (x - mean) rstd, without dx. With r over the rows (positions of
/// examples) of group j,
///
///     S[0][j][c] = sum_r dy[r][c] xhat[r][c],     S[1][j][c] = sum_r dy[r][c].
///
/// dy and x [M, P, C]; groups of m = `examples_per_group` consecutive examples, the last one smaller where M is not a
/// multiple. mean and rstd [A, B] hold for M / A examples and C / B channels each, or have one value per row, [M P, 1]:
/// batch normalisation [1, C], ghost batch normalisation [G, C], group normalisation [M, groups], layer normalisation
/// [M P, 1]. Sums in float, or double for double. torch.ops.covnoise.norm_group_sums.
NormGroupSums norm_group_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                              std::int64_t examples_per_group);

}  // namespace covnoise
