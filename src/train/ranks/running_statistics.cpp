#include "train/ranks/running_statistics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace covnoise {

RunningStatistics::RunningStatistics(torch::nn::Module& model, Communicator& communicator)
    : communicator_(communicator) {
  for (const auto& [name, layer] : normalisation_layers(model)) {
    layers_.push_back({layer, 1 - layer->momentum(), layer->ghost_batch()});
    buffers_.push_back(layer->running_mean);
    buffers_.push_back(layer->running_var);
  }
}

void RunningStatistics::count_calls(const std::function<std::int64_t()>& pass) {
  std::vector<GhostBatchNorm2dImpl::Calls> before;
  for (const auto& layer : layers_) before.push_back(layer.module->calls());
  const std::int64_t examples = pass();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto seen = layers_[i].module->calls() - before[i];
    layers_[i].calls = std::max<std::int64_t>(1, seen.calls);
    layers_[i].rows = std::max<std::int64_t>(1, seen.rows / examples);
  }
}

/// What the ghost batches of `examples` examples leave of the statistics before them.
void RunningStatistics::decay(std::int64_t examples, std::int64_t batch) {
  if (examples == 0 || buffers_.empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Scalar> factors;
  for (const auto& layer : layers_) {
    // Of the whole batch (0) a call is one update, whatever its rows.
    const std::int64_t ghost = layer.ghost_batch > 0 ? std::min(layer.ghost_batch, batch) : batch;
    const std::int64_t updates = examples * (layer.ghost_batch > 0 ? layer.rows : layer.calls) / ghost;
    factors.insert(factors.end(), 2, std::pow(layer.keep, static_cast<double>(updates)));
  }
  at::_foreach_mul_(buffers_, factors);
}

void RunningStatistics::before(const Shard& shard) { decay(shard.first, shard.batch); }
void RunningStatistics::after(const Shard& shard) { decay(shard.after(), shard.batch); }

at::Tensor RunningStatistics::own_terms() const {
  const torch::NoGradGuard no_grad;
  return buffers_.empty() ? at::empty({0}) : at::cat(buffers_);
}

void RunningStatistics::set_own_terms(const at::Tensor& row) {
  const torch::NoGradGuard no_grad;
  std::int64_t place = 0;
  for (auto& buffer : buffers_) {
    buffer.copy_(row.narrow(0, place, buffer.numel()));
    place += buffer.numel();
  }
}

void RunningStatistics::split() {
  if (communicator_.rank() != 0) set_own_terms(at::zeros_like(own_terms()));
}

void RunningStatistics::sum_up() {
  auto terms = own_terms();
  if (terms.numel() == 0) return;
  communicator_.all_reduce(terms);
  set_own_terms(terms);
}

RunningStatistics::Whole::Whole(RunningStatistics& statistics) : statistics_(statistics), own_(statistics.own_terms()) {
  statistics_.sum_up();
}

RunningStatistics::Whole::~Whole() { statistics_.set_own_terms(own_); }

}  // namespace covnoise
