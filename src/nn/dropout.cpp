#include "covnoise/nn/dropout.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/random.h"

#include <fmt/format.h>
#include <torch/nn/modules/dropout.h>
#include <torch/types.h>

#include <algorithm>

namespace covnoise {
namespace {

template <class... Layers>
bool is_any_of(torch::nn::Module& part) {
  return ((dynamic_cast<Layers*>(&part) != nullptr) || ...);
}

}  // namespace

DropoutImpl::DropoutImpl(double p, std::uint32_t index) : p_(p), index_(index) {
  TORCH_CHECK(0 <= p && p < 1, "a dropout probability of ", p, ": it must be at least 0 and below 1");
}

void DropoutImpl::start(std::uint64_t seed, std::uint32_t step, std::int64_t first) {
  stream_ = {seed, nth(Purpose::kDropout, index_), step};
  first_ = first;
  set_offset(0);
  started_ = true;
  for (const auto& drawn : drawn_) fill(drawn);
}

/// Each example has whole blocks of the stream, so that any example can be drawn on its own.
void DropoutImpl::fill(const Drawn& drawn) const {
  RandomStream stream = stream_;
  const std::int64_t row = first_ * drawn.rows_of_example + drawn.row;
  stream.first = static_cast<std::uint64_t>(row * (drawn.uniforms.size(1) / kWordsOfBlock));
  fill_uniform(drawn.uniforms, stream);
}

std::int64_t DropoutImpl::rows_of_example(std::int64_t rows) const {
  if (examples_ == 0) return 1;
  TORCH_CHECK(rows % examples_ == 0, "dropout of ", rows, " rows for ", examples_,
              " examples: the first dimension must be the examples, or as many rows of each");
  return rows / examples_;
}

at::Tensor DropoutImpl::uniforms(const at::Tensor& x, std::int64_t units) {
  const std::int64_t width = (units + kWordsOfBlock - 1) / kWordsOfBlock * kWordsOfBlock;
  const std::int64_t of_example = rows_of_example(x.size(0)), row = offset_ * of_example;
  const auto found = std::find_if(drawn_.begin(), drawn_.end(), [&](const Drawn& drawn) {
    return drawn.row == row && drawn.rows_of_example == of_example &&
           drawn.uniforms.sizes() == at::IntArrayRef({x.size(0), width}) && drawn.uniforms.device() == x.device();
  });
  if (found != drawn_.end()) return found->uniforms;
  drawn_.push_back({row, at::empty({x.size(0), width}, at::TensorOptions(x.device()).dtype(at::kFloat)), of_example});
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

void refuse_foreign_dropout(torch::nn::Module& module, const char* what) {
  module.apply([what](const std::string& name, torch::nn::Module& part) {
    const bool foreign = is_any_of<torch::nn::DropoutImpl, torch::nn::Dropout2dImpl, torch::nn::Dropout3dImpl,
                                   torch::nn::AlphaDropoutImpl, torch::nn::FeatureAlphaDropoutImpl>(part);
    require(!foreign,
            fmt::format("{} compares two passes that must drop the same units, and layer '{}' is PyTorch's own "
                        "dropout; use covnoise's Dropout",
                        what, name));
  });
}

}  // namespace covnoise
