#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/linear.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace covnoise::models {
namespace {

constexpr std::int64_t kF1Hidden = 512, kF1Layers = 5;

/// F1 of Keskar et al. (2017): five hidden layers of 512, each linear, batch normalisation, ReLU.
struct F1 final : Model {
  explicit F1(const ModelOptions& options) {
    std::int64_t inputs = options.input.channels * options.input.height * options.input.width;
    for (std::int64_t i = 0; i < kF1Layers; ++i) {
      fc.push_back(register_module("fc" + std::to_string(i + 1), Linear(inputs, kF1Hidden)));
      bn.push_back(register_module("bn" + std::to_string(i + 1),
                                   GhostBatchNorm1d(torch::nn::BatchNormOptions(kF1Hidden), options.ghost_batch)));
      inputs = kF1Hidden;
    }
    classifier = register_module("classifier", Linear(inputs, options.classes));
  }

  at::Tensor forward(at::Tensor images) override {
    auto x = images.flatten(1);
    for (std::size_t i = 0; i < fc.size(); ++i) x = bn[i]->forward_relu(fc[i](x));
    return classifier(x);
  }

  std::vector<Linear> fc;
  std::vector<GhostBatchNorm1d> bn;
  Linear classifier{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_f1(const ModelOptions& options) { return std::make_shared<F1>(options); }

}  // namespace covnoise::models
