#include "covnoise/nn/flat_parameters.h"

namespace covnoise {
namespace {

constexpr std::int64_t kAlignment = 16;

std::int64_t aligned(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const auto parameters = module.named_parameters();
  TORCH_CHECK(!parameters.is_empty(), "a network without parameters cannot be trained");
  std::int64_t size = 0;
  for (const auto& item : parameters) {
    const auto& value = item.value();
    entries_.push_back({item.key(), size, value.sizes().vec(), value.numel()});
    size = aligned(size + value.numel());
    count_ += value.numel();
  }
  values_ = torch::zeros({size}, parameters.begin()->value().options().requires_grad(false));
  gradient_ = torch::zeros_like(values_);
  std::size_t i = 0;
  for (const auto& item : parameters) {
    const auto& parameter = item.value();
    auto slot = view(values_, entries_[i]);
    slot.copy_(parameter);
    parameter.set_data(slot);
    parameter.mutable_grad() = view(gradient_, entries_[i]);
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
