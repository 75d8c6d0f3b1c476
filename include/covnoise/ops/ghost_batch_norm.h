#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace covnoise {

/// Batch normalisation in training mode with statistics over ghost batches: `x` [M, C, H, W] is G = M / ghost_batch
/// consecutive ghost batches, and the result equals sending them through batch normalisation one after another,
///
///     y = weight (x - mean_g) / sqrt(var_g + eps) + bias,
///
/// with `running_mean` and `running_var` [C] updated in place G times by `momentum` (with the unbiased variance, as
/// PyTorch does). Returns y, mean [G, C] and rstd = 1 / sqrt(var + eps) [G, C]. Float or double. The result does not
/// depend on the number of threads. `torch.ops.covnoise.ghost_batch_norm` in Python; not differentiable by itself.
std::tuple<at::Tensor, at::Tensor, at::Tensor> ghost_batch_norm(const at::Tensor& x, const at::Tensor& weight,
                                                                const at::Tensor& bias, at::Tensor running_mean,
                                                                at::Tensor running_var, std::int64_t ghost_batch,
                                                                double momentum, double eps);

/// The backward of the above: dx [M, C, H, W] and, for each example, its contribution to the gradients of weight and
/// bias, sum_t dy_t xhat_t [M, C] and sum_t dy_t [M, C]; the gradients are their sums over M.
std::tuple<at::Tensor, at::Tensor, at::Tensor> ghost_batch_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                                         const at::Tensor& weight,
                                                                         const at::Tensor& mean, const at::Tensor& rstd,
                                                                         std::int64_t ghost_batch);

}  // namespace covnoise
