#include "train/loop/averaged_statistics.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace covnoise {
namespace {

/// A layer's running statistics r <- (1 - m) r + m v from 0, divided by what the weights of the v add up to. The v are
/// counted by the layer, which the passes may call several times or with several rows for each example: they are never
/// replayed, so that its counter sees all of them.
class Measured {
 public:
  explicit Measured(GhostBatchNorm2dImpl& layer) : layer_(layer), before_(layer.calls()) {
    layer.train();
    for (const auto& buffer : {layer.running_mean, layer.running_var}) buffer.zero_();
  }
  void finish() {
    const auto seen = layer_.calls() - before_;
    const std::int64_t updates = layer_.ghost_batch() > 0 ? seen.rows / layer_.ghost_batch() : seen.calls;
    if (updates == 0) return;  // a layer without a call
    const double weights = 1 - std::pow(1 - layer_.momentum(), static_cast<double>(updates));
    for (const auto& buffer : {layer_.running_mean, layer_.running_var}) buffer.div_(weights);
  }

 private:
  GhostBatchNorm2dImpl& layer_;
  GhostBatchNorm2dImpl::Calls before_;
};

bool is_foreign(torch::nn::Module& part) {
  return part.as<torch::nn::BatchNorm1dImpl>() || part.as<torch::nn::BatchNorm2dImpl>() ||
         part.as<torch::nn::BatchNorm3dImpl>();
}

}  // namespace

void refuse_foreign_normalisation(torch::nn::Module& module) {
  module.apply([](const std::string& name, torch::nn::Module& part) {
    require(!is_foreign(part),
            fmt::format("train.ema measures the statistics of batch normalisation again, and layer '{}' "
                        "is PyTorch's own; use covnoise's GhostBatchNorm2d or GhostBatchNorm1d",
                        name));
  });
}

void measure_statistics(torch::nn::Module& module, const GradientPass::Loss& loss, const ExampleSource& source,
                        const at::Tensor& indices, std::int64_t epoch, std::int64_t examples_at_once) {
  const torch::NoGradGuard no_grad;
  const bool training = module.is_training();
  module.eval();
  std::vector<Measured> layers;
  for (const auto& [name, layer] : normalisation_layers(module)) layers.emplace_back(*layer);
  for (std::int64_t first = 0; first < indices.size(0); first += examples_at_once) {
    const std::int64_t count = std::min(examples_at_once, indices.size(0) - first);
    loss(source.load(indices.narrow(0, first, count), epoch));
  }
  for (auto& layer : layers) layer.finish();
  module.train(training);
}

}  // namespace covnoise
