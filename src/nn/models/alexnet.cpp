#include "covnoise/nn/linear.h"
#include "nn/models/common.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>

namespace covnoise::models {
namespace {

constexpr std::int64_t kAlexnetLast = 128, kAlexnetHidden = 256;

/// AlexNet's plan of five convolutions with three pools, and then hidden units, at CIFAR's size: 3x3 kernels, no
/// normalisation, no dropout. The ReLU of a pooled stage comes after the pool (see lenet.cpp).
struct AlexNet final : Model {
  explicit AlexNet(const ModelOptions& options) {
    features->push_back(conv3x3(options.input.channels, 32, 1, true));
    add_pool();
    features->push_back(conv3x3(32, 96, 1, true));
    add_pool();
    features->push_back(conv3x3(96, 192, 1, true));
    add_relu();
    features->push_back(conv3x3(192, 128, 1, true));
    add_relu();
    features->push_back(conv3x3(128, kAlexnetLast, 1, true));
    add_pool();
    register_module("features", features);
    const auto shape = padded_to_32(options.input);
    fc1 = register_module("fc1", Linear(kAlexnetLast * (shape.height / 8) * (shape.width / 8), kAlexnetHidden));
    fc2 = register_module("fc2", Linear(kAlexnetHidden, options.classes));
  }

  at::Tensor forward(at::Tensor images) override {
    return fc2(fc1(features->forward(padded_to_32(images)).flatten(1)).relu_());
  }

  void add_relu() { features->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true))); }
  void add_pool() {
    features->push_back(halving_pool());
    add_relu();
  }

  torch::nn::Sequential features;
  Linear fc1{nullptr}, fc2{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_alexnet(const ModelOptions& options) { return std::make_shared<AlexNet>(options); }

}  // namespace covnoise::models
