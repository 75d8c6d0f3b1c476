#include "train/loop/example_source.h"

#include "covnoise/core/error.h"

#include <ATen/ATen.h>

#include <utility>

namespace covnoise {

TensorSource::TensorSource(GradientPass::Examples tensors, std::uint64_t seed, at::Device device)
    : tensors_(std::move(tensors)), seed_(seed), device_(device) {
  for (auto& tensor : tensors_) {
    if (!tensor.defined()) continue;
    require(tensor.dim() > 0 && tensor.size(0) > 0 && (size_ == 0 || tensor.size(0) == size_),
            "the tensors of a set must have the same number of examples, at least one, in their first dimension");
    size_ = tensor.size(0);
    tensor = tensor.to(device_);
  }
  require(size_ > 0, "a set of examples without tensors");
}

at::Tensor TensorSource::order(std::int64_t epoch) const { return epoch_order(size_, seed_, epoch).to(device_); }

GradientPass::Examples TensorSource::plain(const at::Tensor& indices) const {
  GradientPass::Examples chosen;
  for (const auto& tensor : tensors_)
    chosen.push_back(tensor.defined() ? tensor.index_select(0, indices.to(device_)) : tensor);
  return chosen;
}

}  // namespace covnoise
