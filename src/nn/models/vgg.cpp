#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/linear.h"
#include "nn/models/common.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>

#include <array>

namespace covnoise::models {
namespace {

constexpr std::array<std::int64_t, 5> kChannels = {64, 128, 256, 512, 512};

/// Convolutions in each of the five stages (Simonyan and Zisserman 2015, table 1: A, B, D, E).
std::array<std::int64_t, 5> stage_depths(std::int64_t layers) {
  switch (layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      TORCH_CHECK(false, "VGG has 11, 13, 16 or 19 layers, not ", layers);
  }
}

/// Batch normalisation after every convolution, which therefore has no bias; the mean over positions (one, at 32x32)
/// and one linear layer. The ReLU at the end of a stage comes after the pool (see lenet.cpp). `features` counts ReLUs
/// and pools as torchvision does, for the parameters' names.
struct Vgg final : Model {
  Vgg(std::int64_t layers, const ModelOptions& options) {
    std::int64_t in = options.input.channels;
    const auto depths = stage_depths(layers);
    for (std::size_t stage = 0; stage < kChannels.size(); ++stage)
      for (std::int64_t i = 0; i < depths[stage]; ++i) {
        const bool last = i + 1 == depths[stage];
        const Unit unit{conv3x3(in, kChannels[stage], 1, false),
                        GhostBatchNorm2d(torch::nn::BatchNormOptions(kChannels[stage]), options.ghost_batch), last};
        features->push_back(unit.conv);
        features->push_back(unit.norm);
        features->push_back(torch::nn::ReLU());
        if (last) features->push_back(halving_pool());
        units.push_back(unit);
        in = kChannels[stage];
      }
    register_module("features", features);
    classifier = register_module("classifier", Linear(in, options.classes));
  }

  at::Tensor forward(at::Tensor images) override {
    auto x = padded_to_32(images);
    for (auto& unit : units) {
      const auto z = unit.conv(x);
      x = unit.pool ? at::max_pool2d(unit.norm(z), 2).relu_() : unit.norm->forward_relu(z);
    }
    return classifier(x.mean({2, 3}));
  }

  struct Unit {
    Conv2d conv;
    GhostBatchNorm2d norm;
    bool pool;
  };
  std::vector<Unit> units;
  torch::nn::Sequential features;
  Linear classifier{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_vgg(std::int64_t layers, const ModelOptions& options) {
  return std::make_shared<Vgg>(layers, options);
}

}  // namespace covnoise::models
