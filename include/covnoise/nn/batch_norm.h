#pragma once
#include "covnoise/nn/accounting.h"

#include <torch/nn/modules/batchnorm.h>

namespace covnoise {

/// Batch normalisation whose statistics, in training mode, are those of ghost batches: each `ghost_batch` consecutive
/// examples of the batch, or the whole batch where it is 0. Equals sending the ghost batches through one after another
/// (ops/ghost_batch_norm.h). In evaluation mode the running statistics, as usual. Its parameters have no Kronecker
/// factors. Not twice differentiable in training mode.
class GhostBatchNorm2dImpl : public torch::nn::Module, public AccountedLayer {
 public:
  GhostBatchNorm2dImpl(const torch::nn::BatchNormOptions& options, std::int64_t ghost_batch);

  at::Tensor forward(const at::Tensor& x);
  /// relu(forward(x) + residual), the residual of x's sizes or undefined: in training mode one operator.
  at::Tensor forward_relu(const at::Tensor& x, const at::Tensor& residual = {});
  at::Tensor weight_parameter() const override { return weight; }
  at::Tensor bias_parameter() const override { return bias; }
  bool has_kronecker_factors() const override { return false; }

  /// From now on y = x + bias: scale and statistics have moved into the convolution before (analysis/hessian.h).
  void become_shift();

  std::int64_t ghost_batch() const { return ghost_batch_; }
  void set_ghost_batch(std::int64_t ghost_batch);
  double momentum() const { return momentum_; }
  double eps() const { return eps_; }

  at::Tensor weight, bias;               ///< scale and shift [C]
  at::Tensor running_mean, running_var;  ///< [C]

 private:
  at::Tensor outside_training(const at::Tensor& x) const;

  std::int64_t ghost_batch_;
  double momentum_, eps_;
  bool shift_only_ = false;
};
TORCH_MODULE(GhostBatchNorm2d);

/// Statistics over the whole batch: torch::nn::BatchNorm2d that can account for each example.
class BatchNorm2dImpl : public GhostBatchNorm2dImpl {
 public:
  explicit BatchNorm2dImpl(const torch::nn::BatchNormOptions& options) : GhostBatchNorm2dImpl(options, 0) {}
};
TORCH_MODULE(BatchNorm2d);

/// Sets the ghost batch of every normalisation layer in `module`: when the batch size changes during training.
void set_ghost_batch(torch::nn::Module& module, std::int64_t ghost_batch);

}  // namespace covnoise
