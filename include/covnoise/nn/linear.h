#pragma once
#include "covnoise/nn/accounting.h"

#include <torch/nn/modules/linear.h>

namespace covnoise {

/// torch::nn::Linear that can record per-example statistics: y = x weight^T + bias, x [M, in], or for
/// sequences [M, ..., in]; a sequence folded into the first dimension, [M T, in], must have the rows of an example
/// together.
class LinearImpl : public torch::nn::Module, public AccountedLayer {
 public:
  LinearImpl(std::int64_t in, std::int64_t out) : LinearImpl(torch::nn::LinearOptions(in, out)) {}
  explicit LinearImpl(const torch::nn::LinearOptions& options);

  at::Tensor forward(const at::Tensor& x);
  at::Tensor weight_parameter() const override { return weight; }
  at::Tensor bias_parameter() const override { return bias; }

  at::Tensor weight, bias;  ///< [out, in], [out]
};
TORCH_MODULE(Linear);

}  // namespace covnoise
