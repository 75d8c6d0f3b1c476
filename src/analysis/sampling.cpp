#include "analysis/sampling.h"

#include <torch/types.h>

namespace covnoise {

at::Tensor drawn_examples(std::int64_t size, std::int64_t count, std::uint64_t seed, std::int64_t number) {
  const RandomStream stream{seed, Purpose::kAnalysis, static_cast<std::uint32_t>(number)};
  auto indices = torch::empty({count}, torch::kInt64);
  auto* data = indices.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i)
    data[i] = stream.below(static_cast<std::uint32_t>(size), static_cast<std::uint64_t>(i));
  return indices;
}

KeepState::KeepState(Model& model) : model_(model), training_(model.is_training()) {
  for (const auto& buffer : model.buffers()) kept_.push_back(buffer.clone());
}

KeepState::~KeepState() {
  const torch::NoGradGuard no_grad;
  const auto buffers = model_.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(kept_[i]);
  model_.train(training_);
}

}  // namespace covnoise
