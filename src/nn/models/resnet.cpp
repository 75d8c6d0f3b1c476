#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/linear.h"
#include "nn/models/common.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>

namespace covnoise::models {
namespace {

GhostBatchNorm2d norm(std::int64_t channels, std::int64_t ghost_batch) {
  return GhostBatchNorm2d(torch::nn::BatchNormOptions(channels), ghost_batch);
}

/// Two 3x3 convolutions and a shortcut without parameters (He et al. 2016, option A): where the block halves the image,
/// every second pixel, and zeros for the new channels, half of them before and half after.
class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t ghost_batch)
      : conv1(register_module("conv1", conv3x3(in, out, stride, false))),
        bn1(register_module("bn1", norm(out, ghost_batch))),
        conv2(register_module("conv2", conv3x3(out, out, 1, false))),
        bn2(register_module("bn2", norm(out, ghost_batch))),
        stride_(stride),
        new_channels_(out - in) {}

  at::Tensor forward(const at::Tensor& x) {
    const auto hidden = bn1->forward_relu(conv1(x));
    return bn2->forward_relu(conv2(hidden), shortcut(x));
  }

 private:
  at::Tensor shortcut(const at::Tensor& x) const {
    if (stride_ == 1 && new_channels_ == 0) return x;
    const std::int64_t before = new_channels_ / 2;
    const auto pixels = x.slice(2, 0, x.size(2), stride_).slice(3, 0, x.size(3), stride_);
    return at::constant_pad_nd(pixels, {0, 0, 0, 0, before, new_channels_ - before});
  }

  Conv2d conv1;
  GhostBatchNorm2d bn1;
  Conv2d conv2;
  GhostBatchNorm2d bn2;
  std::int64_t stride_, new_channels_;
};
TORCH_MODULE(BasicBlock);

/// The ResNets for CIFAR: a convolution, three stages of n blocks with 16, 32 and 64 channels (times the width) at
/// 32x32, 16x16 and 8x8, the mean over positions, one linear layer: 6n + 2 layers.
struct ResNet final : Model {
  ResNet(std::int64_t layers, std::int64_t width, const ModelOptions& options)
      : conv1(register_module("conv1", conv3x3(options.input.channels, 16 * width, 1, false))),
        bn1(register_module("bn1", norm(16 * width, options.ghost_batch))) {
    TORCH_CHECK(layers >= 8 && (layers - 2) % 6 == 0 && width >= 1, "a ResNet for CIFAR has 6n + 2 layers, not ",
                layers);
    std::int64_t in = 16 * width;
    for (std::int64_t stage = 0; stage < 3; ++stage) {
      const std::int64_t out = (16 << stage) * width;
      for (std::int64_t i = 0; i < (layers - 2) / 6; ++i) {
        stages[stage]->push_back(BasicBlock(in, out, stage > 0 && i == 0 ? 2 : 1, options.ghost_batch));
        in = out;
      }
      register_module("layer" + std::to_string(stage + 1), stages[stage]);
    }
    fc = register_module("fc", Linear(in, options.classes));
  }

  at::Tensor forward(at::Tensor images) override {
    auto x = bn1->forward_relu(conv1(padded_to_32(images)));
    for (auto& stage : stages) x = stage->forward(x);
    return fc(x.mean({2, 3}));
  }

  Conv2d conv1;
  GhostBatchNorm2d bn1;
  torch::nn::Sequential stages[3];
  Linear fc{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet(std::int64_t layers, std::int64_t width, const ModelOptions& options) {
  return std::make_shared<ResNet>(layers, width, options);
}

}  // namespace covnoise::models
