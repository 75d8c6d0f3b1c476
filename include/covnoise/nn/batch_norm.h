#pragma once
#include "covnoise/nn/accounting.h"

#include <torch/nn/modules/batchnorm.h>

#include <cstdint>
#include <string>
#include <vector>

namespace covnoise {

/// Batch normalisation whose statistics, in training mode, are those of ghost batches: each `ghost_batch` consecutive
/// examples of the batch, or the whole batch if it is 0. Equals sending the ghost batches through one after another
/// (ops/ghost_batch_norm.h). In evaluation mode it uses the running statistics, as usual. Its parameters have no
/// Kronecker factors. Not twice differentiable in training mode.
class GhostBatchNorm2dImpl : public torch::nn::Module, public AccountedLayer {
 public:
  GhostBatchNorm2dImpl(const torch::nn::BatchNormOptions& options, std::int64_t ghost_batch);

  at::Tensor forward(const at::Tensor& x);
  /// relu(forward(x) + residual), fused in training mode; the residual has the sizes of x or is undefined.
  at::Tensor forward_relu(const at::Tensor& x, const at::Tensor& residual = {});
  at::Tensor weight_parameter() const override { return weight; }
  at::Tensor bias_parameter() const override { return bias; }
  bool has_kronecker_factors() const override { return false; }

  /// From now on y = x + bias, or y = sign x + bias with `sign` [C] of 1 and -1: scale and statistics have been folded
  /// into the preceding convolution (analysis/hessian.h).
  void become_shift(const at::Tensor& sign = {});

  std::int64_t ghost_batch() const { return ghost_batch_; }
  void set_ghost_batch(std::int64_t ghost_batch);
  double momentum() const { return momentum_; }

  /// How often the layer was called, and with how many rows in all, in either mode. Not part of its state. A replayed
  /// CUDA graph runs no code of the host: it counts nothing.
  struct Calls {
    std::int64_t calls = 0, rows = 0;
    friend Calls operator-(const Calls& a, const Calls& b) { return {a.calls - b.calls, a.rows - b.rows}; }
  };
  const Calls& calls() const { return calls_; }
  double eps() const { return eps_; }

  at::Tensor weight, bias;               ///< scale and shift [C]
  at::Tensor running_mean, running_var;  ///< statistics for evaluation [C]

 private:
  at::Tensor outside_training(const at::Tensor& x) const;
  void count(const at::Tensor& x);

  std::int64_t ghost_batch_;
  double momentum_, eps_;
  bool shift_only_ = false;
  at::Tensor sign_;  // undefined: 1
  Calls calls_;
};
TORCH_MODULE(GhostBatchNorm2d);

/// The same for features [M, C].
class GhostBatchNorm1dImpl : public GhostBatchNorm2dImpl {
 public:
  using GhostBatchNorm2dImpl::GhostBatchNorm2dImpl;
  at::Tensor forward(const at::Tensor& x) { return GhostBatchNorm2dImpl::forward(as_images(x)).flatten(1); }
  /// relu(forward(x)), fused in training mode.
  at::Tensor forward_relu(const at::Tensor& x) { return GhostBatchNorm2dImpl::forward_relu(as_images(x)).flatten(1); }

 private:
  static at::Tensor as_images(const at::Tensor& x);  ///< [M, C, 1, 1]
};
TORCH_MODULE(GhostBatchNorm1d);

/// torch::nn::BatchNorm2d that can record per-example statistics.
class BatchNorm2dImpl : public GhostBatchNorm2dImpl {
 public:
  explicit BatchNorm2dImpl(const torch::nn::BatchNormOptions& options) : GhostBatchNorm2dImpl(options, 0) {}
};
TORCH_MODULE(BatchNorm2d);

struct NamedNormalisation {
  std::string name;  ///< as in named_parameters
  GhostBatchNorm2dImpl* layer;
};
/// The normalisation layers in `module`, each once, under its first name.
std::vector<NamedNormalisation> normalisation_layers(torch::nn::Module& module);

/// Sets the ghost batch of every normalisation layer in `module`, for a change of the batch size during training.
void set_ghost_batch(torch::nn::Module& module, std::int64_t ghost_batch);

}  // namespace covnoise
