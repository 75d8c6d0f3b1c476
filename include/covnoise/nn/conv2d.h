#pragma once
#include "covnoise/nn/accounting.h"

#include <torch/nn/modules/conv.h>

namespace covnoise {

/// torch::nn::Conv2d that can record per-example statistics. Takes the same options, except for padding other than by a
/// number of zeros. x [M, C, H, W].
class Conv2dImpl : public torch::nn::Module, public AccountedLayer {
 public:
  explicit Conv2dImpl(const torch::nn::Conv2dOptions& options);

  at::Tensor forward(const at::Tensor& x);
  at::Tensor weight_parameter() const override { return weight; }
  at::Tensor bias_parameter() const override { return bias; }
  /// Grouped convolutions have one pair of factors per group, which a record cannot hold.
  bool has_kronecker_factors() const override { return groups_ == 1; }

  at::Tensor weight, bias;  ///< [O, C / groups, kernel, kernel], [O]

 private:
  std::vector<std::int64_t> stride_, padding_, dilation_;
  std::int64_t groups_;
};
TORCH_MODULE(Conv2d);

}  // namespace covnoise
