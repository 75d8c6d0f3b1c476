#include "covnoise/nn/dropout.h"

#include "covnoise/ops/random.h"

#include <torch/types.h>

#include <algorithm>

namespace covnoise {

DropoutImpl::DropoutImpl(double p, std::uint32_t index) : p_(p), index_(index) {
  TORCH_CHECK(0 <= p && p < 1, "a dropout probability of ", p, ": it must be at least 0 and below 1");
}

void DropoutImpl::start(std::uint64_t seed, std::uint32_t step, std::int64_t first) {
  stream_ = {seed, nth(Purpose::kDropout, index_), step};
  first_ = first;
  offset_ = 0;
  started_ = true;
  for (const auto& drawn : drawn_) fill(drawn);
}

/// Each example has whole blocks of the stream, so that any example can be drawn on its own.
void DropoutImpl::fill(const Drawn& drawn) const {
  RandomStream stream = stream_;
  stream.first = static_cast<std::uint64_t>((first_ + drawn.offset) * (drawn.uniforms.size(1) / kWordsOfBlock));
  fill_uniform(drawn.uniforms, stream);
}

at::Tensor DropoutImpl::uniforms(const at::Tensor& x, std::int64_t units) {
  const std::int64_t width = (units + kWordsOfBlock - 1) / kWordsOfBlock * kWordsOfBlock;
  const auto found = std::find_if(drawn_.begin(), drawn_.end(), [&](const Drawn& drawn) {
    return drawn.offset == offset_ && drawn.uniforms.sizes() == at::IntArrayRef({x.size(0), width}) &&
           drawn.uniforms.device() == x.device();
  });
  if (found != drawn_.end()) return found->uniforms;
  drawn_.push_back({offset_, at::empty({x.size(0), width}, at::TensorOptions(x.device()).dtype(at::kFloat))});
  fill(drawn_.back());
  return drawn_.back().uniforms;
}

at::Tensor DropoutImpl::forward(const at::Tensor& x) {
  if (!is_training() || p_ == 0) return x;
  TORCH_CHECK(started_,
              "dropout in training mode needs the step it draws for: train with GradientPass, or call start()");
  const std::int64_t units = x.numel() / x.size(0);
  const auto kept = uniforms(x, units).narrow(1, 0, units).gt(p_).reshape(x.sizes());
  return x * kept.to(x.scalar_type()).mul_(1 / (1 - p_));
}

std::vector<DropoutImpl*> dropout_layers(torch::nn::Module& module) {
  std::vector<DropoutImpl*> layers;
  module.apply([&](torch::nn::Module& part) {
    if (auto* layer = part.as<DropoutImpl>()) layers.push_back(layer);
  });
  return layers;
}

}  // namespace covnoise
