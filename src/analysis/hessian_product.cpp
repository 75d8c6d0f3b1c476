#include "covnoise/analysis/hessian.h"
#include "covnoise/core/error.h"
#include "covnoise/core/memory.h"

#include <ATen/core/grad_mode.h>
#include <torch/autograd.h>
#include <torch/types.h>

namespace covnoise {
namespace {

std::vector<at::Tensor> split_like(const at::Tensor& vector, const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (const auto& parameter : parameters) {
    parts.push_back(vector.narrow(0, first, parameter.numel()).view(parameter.sizes()));
    first += parameter.numel();
  }
  return parts;
}

}  // namespace

HessianProduct::HessianProduct(std::vector<at::Tensor> parameters, std::vector<Slice> slices, LossSum loss_sum,
                               std::int64_t memory_limit)
    : parameters_(std::move(parameters)),
      slices_(std::move(slices)),
      loss_sum_(std::move(loss_sum)),
      memory_limit_(memory_limit) {
  require(!parameters_.empty() && !slices_.empty(), "a Hessian needs parameters and examples");
  for (const auto& parameter : parameters_) dimension_ += parameter.numel();
  for (const auto& slice : slices_) examples_ += slice.labels.size(0);
}

HessianProduct::Gradients HessianProduct::gradients(const Slice& slice) const {
  const at::AutoGradMode with_graph(true);
  return torch::autograd::grad({loss_sum_(slice)}, parameters_, {}, /*retain_graph=*/true, /*create_graph=*/true);
}

// Graphs of the first slices are kept while they fit.
HessianProduct::Gradients HessianProduct::kept_or_new(std::size_t slice) {
  if (slice < graphs_.size()) return graphs_[slice];
  const std::int64_t before = allocated_bytes();
  auto result = gradients(slices_[slice]);
  const std::int64_t size = allocated_bytes() - before;
  if (size > 0 && slice == graphs_.size() && memory_used_ + size <= memory_limit_) {
    graphs_.push_back(result);
    memory_used_ += size;
  }
  return result;
}

at::Tensor HessianProduct::operator()(const at::Tensor& v) {
  TORCH_CHECK(v.numel() == dimension_, "a vector of ", v.numel(), " elements for a Hessian of dimension ", dimension_);
  const auto parts = split_like(v, parameters_);
  auto product = torch::zeros({dimension_}, options());
  const auto sums = split_like(product, parameters_);
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const auto first = kept_or_new(i);
    const auto second = torch::autograd::grad(first, parameters_, parts, /*retain_graph=*/i < graphs_.size(),
                                              /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (second[j].defined()) sums[j].add_(second[j]);
    }
    after_slice();
  }
  return product.div_(static_cast<double>(examples_));
}

}  // namespace covnoise
