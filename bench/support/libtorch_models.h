#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

// The networks of the zoo with LibTorch's own layers, for 3x32x32 (mlp and lenet: 1x28x28) and 10 classes: the
// baseline of our steps.
namespace covnoise::bench {

namespace nn = torch::nn;

inline nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride, bool bias) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(bias));
}
inline nn::ReLU relu() { return nn::ReLU(nn::ReLUOptions(true)); }
inline nn::MaxPool2d pool() { return nn::MaxPool2d(nn::MaxPool2dOptions(2)); }

struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", conv3x3(in, out, stride, false))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", conv3x3(out, out, 1, false))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))),
        added((out - in) / 2) {}

  at::Tensor forward(const at::Tensor& x) {
    auto shortcut = x;
    if (added > 0)
      shortcut = at::constant_pad_nd(x.slice(2, 0, x.size(2), 2).slice(3, 0, x.size(3), 2), {0, 0, 0, 0, added, added});
    return bn2(conv2(bn1(conv1(x)).relu_())).add_(shortcut).relu_();
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::int64_t added;
};
TORCH_MODULE(BasicBlock);

struct MeanOverPositionsImpl : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x.mean({2, 3}); }
};
TORCH_MODULE(MeanOverPositions);

inline nn::Sequential libtorch_resnet(std::int64_t layers) {
  nn::Sequential net(conv3x3(3, 16, 1, false), nn::BatchNorm2d(16), relu());
  std::int64_t in = 16;
  for (std::int64_t stage = 0; stage < 3; ++stage)
    for (std::int64_t i = 0; i < (layers - 2) / 6; ++i) {
      net->push_back(BasicBlock(in, 16 << stage, stage > 0 && i == 0 ? 2 : 1));
      in = 16 << stage;
    }
  net->push_back(MeanOverPositions());
  net->push_back(nn::Linear(in, 10));
  return net;
}

inline nn::Sequential libtorch_vgg16() {
  nn::Sequential net;
  std::int64_t in = 3;
  const std::vector<std::pair<std::int64_t, int>> stages = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  for (const auto& [out, depth] : stages)
    for (int i = 0; i < depth; ++i) {
      net->push_back(conv3x3(in, out, 1, false));
      net->push_back(nn::BatchNorm2d(out));
      if (i + 1 == depth) net->push_back(pool());
      net->push_back(relu());
      in = out;
    }
  net->push_back(MeanOverPositions());
  net->push_back(nn::Linear(512, 10));
  return net;
}

inline nn::Sequential libtorch_model(const std::string& name) {
  if (name == "mlp")
    return nn::Sequential(nn::Flatten(), nn::Linear(784, 512), relu(), nn::Linear(512, 512), relu(),
                          nn::Linear(512, 10));
  if (name == "lenet")
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 20, 5)), pool(), relu(),
                          nn::Conv2d(nn::Conv2dOptions(20, 50, 5)), pool(), relu(), nn::Flatten(), nn::Linear(800, 500),
                          relu(), nn::Linear(500, 10));
  if (name == "alexnet")
    return nn::Sequential(conv3x3(3, 32, 1, true), pool(), relu(), conv3x3(32, 96, 1, true), pool(), relu(),
                          conv3x3(96, 192, 1, true), relu(), conv3x3(192, 128, 1, true), relu(),
                          conv3x3(128, 128, 1, true), pool(), relu(), nn::Flatten(), nn::Linear(2048, 256), relu(),
                          nn::Linear(256, 10));
  if (name == "vgg16") return libtorch_vgg16();
  return libtorch_resnet(std::stoll(name.substr(6)));
}

}  // namespace covnoise::bench
