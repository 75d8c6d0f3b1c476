#include "covnoise/nn/internal/other_weights.h"

#include <ATen/ATen.h>

#include <limits>

namespace covnoise {

at::Tensor length_of(const at::Tensor& x) { return x.norm().clamp_min(std::numeric_limits<float>::min()); }

OtherWeights::OtherWeights(FlatParameters& parameters, const at::Tensor& weights, std::vector<at::Tensor> buffers)
    : values_(parameters.values()) {
  const at::NoGradGuard no_grad;
  for (auto& buffer : buffers) {
    if (buffer.is_floating_point())
      buffers_.push_back(std::move(buffer));
    else
      others_.emplace_back(buffer, buffer.clone());
  }
  if (!buffers_.empty()) before_ = at::_foreach_add(buffers_, at::Scalar(0));
  if (!weights.defined()) return;
  own_ = values_.detach().clone();
  values_.copy_(weights);
}

OtherWeights::~OtherWeights() {
  const at::NoGradGuard no_grad;
  if (own_.defined()) values_.copy_(own_);
  for (auto& [buffer, before] : others_) buffer.copy_(before);
  if (buffers_.empty()) return;
  at::_foreach_zero_(buffers_);
  at::_foreach_add_(buffers_, before_);
}

}  // namespace covnoise
