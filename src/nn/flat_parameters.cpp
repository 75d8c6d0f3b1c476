#include "covnoise/nn/flat_parameters.h"

#include <set>

namespace covnoise {
namespace {

constexpr std::int64_t kAlignment = 16;

std::int64_t aligned(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> trainable_parameters(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  std::set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      result.emplace_back(item.key(), item.value());
  }
  return result;
}

FlatParameters::FlatParameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const auto parameters = trainable_parameters(module);
  TORCH_CHECK(!parameters.empty(), "a network without trainable parameters cannot be trained");
  const auto options = parameters[0].second.options().requires_grad(false);
  std::int64_t size = 0;
  for (const auto& [name, value] : parameters) {
    TORCH_CHECK(value.dtype() == options.dtype() && value.device() == options.device(), "parameter '", name, "' is ",
                value.dtype(), " on ", value.device(), ", but '", parameters[0].first, "' is ", options.dtype(), " on ",
                options.device(), ": a network is trained in one type on one device");
    entries_.push_back({name, size, value.sizes().vec(), value.numel()});
    size = aligned(size + value.numel());
    count_ += value.numel();
  }
  values_ = torch::zeros({size}, options);
  gradient_ = torch::zeros_like(values_);
  std::size_t i = 0;
  for (const auto& [name, parameter] : parameters) {
    auto slot = view(values_, entries_[i]);
    slot.copy_(parameter);
    parameter.set_data(slot);
    parameter.mutable_grad() =
        view(gradient_, entries_[i]).detach();  // not a view for autograd: zero_grad may detach it
    ++i;
  }
}

FlatParameters FlatParameters::slice(std::size_t begin, std::size_t end) const {
  TORCH_CHECK(begin < end && end <= entries_.size(), "parameters ", begin, " to ", end, " of ", entries_.size());
  FlatParameters result;
  result.first_entry_ = first_entry_ + begin;
  const std::int64_t first = entries_[begin].offset;
  result.first_element_ = first_element_ + first;
  for (std::size_t i = begin; i < end; ++i) {
    result.entries_.push_back(entries_[i]);
    result.entries_.back().offset -= first;
    result.count_ += entries_[i].numel;
  }
  const std::int64_t elements = (end < entries_.size() ? entries_[end].offset : size()) - first;
  result.values_ = values_.narrow(0, first, elements);
  result.gradient_ = gradient_.narrow(0, first, elements);
  return result;
}

at::Tensor FlatParameters::slice_of(const at::Tensor& whole) const {
  return whole.defined() ? whole.narrow(0, first_element_, size()) : whole;
}

at::Tensor FlatParameters::zeros() const { return torch::zeros_like(values_); }

at::Tensor FlatParameters::view(const at::Tensor& buffer, const Entry& entry) const {
  return buffer.narrow(0, entry.offset, entry.numel).view(entry.sizes);
}

std::vector<at::Tensor> FlatParameters::views(const at::Tensor& buffer) const {
  std::vector<at::Tensor> result;
  result.reserve(entries_.size());
  for (const auto& entry : entries_) result.push_back(view(buffer, entry));
  return result;
}

void FlatParameters::clear_gaps(at::Tensor& buffer) const {
  for (const auto& entry : entries_) {
    const std::int64_t end = entry.offset + entry.numel;
    if (aligned(end) != end) buffer.narrow(0, end, aligned(end) - end).zero_();
  }
}

}  // namespace covnoise
