#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/dropout.h"
#include "covnoise/nn/linear.h"
#include "nn/models/common.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>

namespace covnoise::models {
namespace {

constexpr std::int64_t kC1Channels = 64, kC1First = 384, kC1Second = 192;

/// Size of one side after a stage: the convolution keeps it, the 3x3 pool has stride 2 and no padding.
std::int64_t after_pool(std::int64_t size) { return (size - 3) / 2 + 1; }

Conv2d convolution(std::int64_t in) {
  return Conv2d(torch::nn::Conv2dOptions(in, kC1Channels, 5).padding(2).bias(false));
}

/// C1 of Keskar et al. (2017), which Hoffer et al. (2017) call AlexNet: two stages of convolution, pool, batch
/// normalisation and ReLU; two hidden layers, each linear, batch normalisation, ReLU, dropout.
struct C1 final : Model {
  explicit C1(const ModelOptions& options) {
    const auto norm = [&](std::int64_t features) { return torch::nn::BatchNormOptions(features); };
    const auto shape = padded_to_32(options.input);
    const std::int64_t features =
        kC1Channels * after_pool(after_pool(shape.height)) * after_pool(after_pool(shape.width));
    conv1 = register_module("conv1", convolution(options.input.channels));
    pool1 = register_module("pool1", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2)));
    bn1 = register_module("bn1", GhostBatchNorm2d(norm(kC1Channels), options.ghost_batch));
    conv2 = register_module("conv2", convolution(kC1Channels));
    pool2 = register_module("pool2", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2)));
    bn2 = register_module("bn2", GhostBatchNorm2d(norm(kC1Channels), options.ghost_batch));
    fc1 = register_module("fc1", Linear(torch::nn::LinearOptions(features, kC1First).bias(false)));
    bn3 = register_module("bn3", GhostBatchNorm1d(norm(kC1First), options.ghost_batch));
    drop1 = register_module("drop1", Dropout(0.5, 0));
    fc2 = register_module("fc2", Linear(torch::nn::LinearOptions(kC1First, kC1Second).bias(false)));
    bn4 = register_module("bn4", GhostBatchNorm1d(norm(kC1Second), options.ghost_batch));
    drop2 = register_module("drop2", Dropout(0.5, 1));
    classifier = register_module("classifier", Linear(kC1Second, options.classes));
  }

  at::Tensor forward(at::Tensor images) override {
    auto x = bn1->forward_relu(pool1(conv1(padded_to_32(images))));
    x = bn2->forward_relu(pool2(conv2(x))).flatten(1);
    x = drop1(bn3->forward_relu(fc1(x)));
    return classifier(drop2(bn4->forward_relu(fc2(x))));
  }

  Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::MaxPool2d pool1{nullptr}, pool2{nullptr};
  GhostBatchNorm2d bn1{nullptr}, bn2{nullptr};
  GhostBatchNorm1d bn3{nullptr}, bn4{nullptr};
  Dropout drop1{nullptr}, drop2{nullptr};
  Linear fc1{nullptr}, fc2{nullptr}, classifier{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_c1(const ModelOptions& options) { return std::make_shared<C1>(options); }

}  // namespace covnoise::models
