#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace covnoise {

/// Options of ghost batch normalisation.
struct GhostNorm {
  std::int64_t ghost_batch = 0;       ///< consecutive examples that share statistics
  double momentum = 0.1, eps = 1e-5;  ///< as in torch.nn.BatchNorm2d
  bool relu = false;                  ///< whether a ReLU follows
};

/// Batch normalisation in training mode with statistics over ghost batches: `x` [M, C, H, W] is G = M / ghost_batch
/// consecutive ghost batches, and the result equals sending them through batch normalisation one after another,
///
///     y = weight (x - mean_g) / sqrt(var_g + eps) + bias (+ residual), then max(0, y) with `relu`,
///
/// with `running_mean` and `running_var` [C] updated in place G times by `momentum` (with the unbiased variance, as
/// PyTorch does). `residual`, of x's sizes, may be undefined. Returns y and the statistics [5, G, C]: mean,
/// 1 / sqrt(var + eps), biased variance, and scale and shift of y = x scale + shift. Float or double; on a GPU bfloat16
/// as well, with float32 parameters and statistics. The result does not depend on the number of threads.
/// torch.ops.covnoise.ghost_batch_norm, which PyTorch can differentiate once; this function cannot be.
std::tuple<at::Tensor, at::Tensor> ghost_batch_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, at::Tensor running_mean,
                                                    at::Tensor running_var, const GhostNorm& norm,
                                                    const at::Tensor& residual = {});

/// Buffers [C] to which the backward adds squares: sum_j (sum of c_i over group j)^2, with c_i the contribution of
/// example i to the gradient of weight or bias.
struct GhostNormSquares {
  at::Tensor weight, bias;              ///< undefined: not needed
  std::int64_t examples_per_group = 1;  ///< consecutive examples; on a GPU 1 or the ghost batch
};

/// Gradients of the inputs and parameters of ghost_batch_norm.
struct GhostNormGradients {
  at::Tensor dx, dresidual;   ///< dresidual is undefined without a residual
  at::Tensor dweight, dbias;  ///< [C] each
};

/// Backward of ghost_batch_norm. `y` is its output, needed with `relu`.
GhostNormGradients ghost_batch_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& y,
                                             const at::Tensor& weight, const at::Tensor& statistics,
                                             const GhostNorm& norm, bool residual, const GhostNormSquares& squares);

}  // namespace covnoise
