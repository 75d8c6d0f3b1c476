#include "covnoise/core/error.h"
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/linear.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace covnoise::models {
namespace {

constexpr std::int64_t kLenetFirst = 20, kLenetSecond = 50, kLenetHidden = 500;

/// Size of one side after a 5x5 convolution without padding and a pool that halves it.
std::int64_t after_stage(std::int64_t size) { return (size - 4) / 2; }

std::int64_t features(const InputShape& shape) {
  const std::int64_t rows = after_stage(after_stage(shape.height)), columns = after_stage(after_stage(shape.width));
  if (rows < 1 || columns < 1)
    throw Error(fmt::format("lenet needs images of at least 16x16, these are {}x{}", shape.height, shape.width));
  return kLenetSecond * rows * columns;
}

/// Two stages of convolution, pool and ReLU, then 500 hidden units. The ReLU comes after the pool, where it has a
/// quarter of the work and the same result: both are monotonic.
struct LeNet final : Model {
  explicit LeNet(const ModelOptions& options)
      : conv1(register_module("conv1", Conv2d(torch::nn::Conv2dOptions(options.input.channels, kLenetFirst, 5)))),
        conv2(register_module("conv2", Conv2d(torch::nn::Conv2dOptions(kLenetFirst, kLenetSecond, 5)))),
        fc1(register_module("fc1", Linear(features(options.input), kLenetHidden))),
        fc2(register_module("fc2", Linear(kLenetHidden, options.classes))) {}

  at::Tensor forward(at::Tensor images) override {
    auto x = at::max_pool2d(conv1(images), 2).relu_();
    x = at::max_pool2d(conv2(x), 2).relu_();
    return fc2(fc1(x.flatten(1)).relu_());
  }

  Conv2d conv1, conv2;
  Linear fc1, fc2;
};

}  // namespace

std::shared_ptr<Model> make_lenet(const ModelOptions& options) { return std::make_shared<LeNet>(options); }

}  // namespace covnoise::models
