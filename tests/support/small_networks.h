#pragma once
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/initialize.h"
#include "covnoise/nn/linear.h"
#include "support/device.h"

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace covnoise::testing {

/// A network small enough for brute force. `reference` computes the same logits from plain operators with one copy of
/// the parameters per example, [M, ...] in the order of named_parameters: gradients with respect to the copies are
/// the contributions of the examples.
struct SmallNetwork : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  virtual at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const = 0;
  virtual std::vector<std::int64_t> input() const = 0;  ///< shape of one example
  virtual bool batch_statistics() const { return false; }
};

inline at::Tensor linear_each(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  return w.bmm(x.unsqueeze(2)).squeeze(2) + b;
}

inline at::Tensor conv_each(const at::Tensor& x, const at::Tensor& w, std::int64_t stride, std::int64_t padding,
                            std::int64_t groups = 1) {
  const auto m = x.size(0);
  const auto y = at::conv2d(x.reshape({1, m * x.size(1), x.size(2), x.size(3)}), w.flatten(0, 1), {}, stride, padding,
                            1, m * groups);
  return y.reshape({m, w.size(1), y.size(2), y.size(3)});
}

inline at::Tensor norm_each(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, std::int64_t ghost) {
  const auto g = x.reshape({x.size(0) / ghost, ghost, x.size(1), x.size(2), x.size(3)});
  const auto mean = g.mean({1, 3, 4}, true);
  const auto var = (g - mean).pow(2).mean({1, 3, 4}, true);
  const auto hat = ((g - mean) / (var + 1e-5).sqrt()).reshape(x.sizes());
  return hat * scale.unsqueeze(2).unsqueeze(3) + shift.unsqueeze(2).unsqueeze(3);
}

inline at::Tensor channel(const at::Tensor& b) { return b.unsqueeze(2).unsqueeze(3); }

/// 3-4-3 with tanh.
struct SmallMlp final : SmallNetwork {
  Linear fc1{nullptr}, fc2{nullptr};
  SmallMlp() : fc1(register_module("fc1", Linear(3, 4))), fc2(register_module("fc2", Linear(4, 3))) {}
  at::Tensor forward(const at::Tensor& x) override { return fc2(torch::tanh(fc1(x))); }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    return linear_each(torch::tanh(linear_each(x, p[0], p[1])), p[2], p[3]);
  }
  std::vector<std::int64_t> input() const override { return {3}; }
};

/// A convolution with bias, a grouped one with stride 2, a linear layer.
struct SmallConvolution final : SmallNetwork {
  Conv2d conv1{nullptr}, conv2{nullptr};
  Linear fc{nullptr};
  SmallConvolution() {
    conv1 = register_module("conv1", Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    conv2 = register_module("conv2", Conv2d(torch::nn::Conv2dOptions(4, 6, 3).stride(2).groups(2).bias(false)));
    fc = register_module("fc", Linear(24, 3));
  }
  at::Tensor forward(const at::Tensor& x) override { return fc(torch::tanh(conv2(torch::tanh(conv1(x)))).flatten(1)); }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    const auto h = torch::tanh(conv_each(x, p[0], 1, 1) + channel(p[1]));
    return linear_each(torch::tanh(conv_each(h, p[2], 2, 0, 2)).flatten(1), p[3], p[4]);
  }
  std::vector<std::int64_t> input() const override { return {2, 5, 5}; }
};

constexpr std::int64_t kGhost = 4;

/// Ghost batch normalisation and a residual connection, as in the ResNets.
struct SmallResidual final : SmallNetwork {
  Conv2d conv1{nullptr}, conv2{nullptr};
  GhostBatchNorm2d bn1{nullptr}, bn2{nullptr};
  Linear fc{nullptr};
  SmallResidual() {
    conv1 = register_module("conv1", Conv2d(torch::nn::Conv2dOptions(2, 3, 3).padding(1).bias(false)));
    bn1 = register_module("bn1", GhostBatchNorm2d(torch::nn::BatchNormOptions(3), kGhost));
    conv2 = register_module("conv2", Conv2d(torch::nn::Conv2dOptions(3, 3, 3).padding(1).bias(false)));
    bn2 = register_module("bn2", GhostBatchNorm2d(torch::nn::BatchNormOptions(3), kGhost));
    fc = register_module("fc", Linear(3, 3));
  }
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = torch::tanh(bn1(conv1(x)));
    return fc(torch::tanh(h + bn2(conv2(h))).mean({2, 3}));
  }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    const auto h = torch::tanh(norm_each(conv_each(x, p[0], 1, 1), p[1], p[2], kGhost));
    const auto y = norm_each(conv_each(h, p[3], 1, 1), p[4], p[5], kGhost);
    return linear_each(torch::tanh(h + y).mean({2, 3}), p[6], p[7]);
  }
  std::vector<std::int64_t> input() const override { return {2, 4, 4}; }
  bool batch_statistics() const override { return true; }
};

/// Overlapping pools, normalised features, layers without bias, as in C1.
struct SmallFeatures final : SmallNetwork {
  Conv2d conv{nullptr};
  GhostBatchNorm2d bn1{nullptr};
  Linear fc1{nullptr}, fc2{nullptr};
  GhostBatchNorm1d bn2{nullptr};
  SmallFeatures() {
    conv = register_module("conv", Conv2d(torch::nn::Conv2dOptions(2, 3, 5).padding(2).bias(false)));
    bn1 = register_module("bn1", GhostBatchNorm2d(torch::nn::BatchNormOptions(3), kGhost));
    fc1 = register_module("fc1", Linear(torch::nn::LinearOptions(12, 4).bias(false)));
    bn2 = register_module("bn2", GhostBatchNorm1d(torch::nn::BatchNormOptions(4), kGhost));
    fc2 = register_module("fc2", Linear(4, 3));
  }
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = bn1->forward_relu(at::max_pool2d(conv(x), 3, 2)).flatten(1);
    return fc2(torch::tanh(bn2(fc1(h))));
  }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    const auto h = norm_each(at::max_pool2d(conv_each(x, p[0], 1, 2), 3, 2), p[1], p[2], kGhost).relu().flatten(1);
    const auto z = norm_each(p[3].bmm(h.unsqueeze(2)).unsqueeze(3), p[4], p[5], kGhost).flatten(1);
    return linear_each(torch::tanh(z), p[6], p[7]);
  }
  std::vector<std::int64_t> input() const override { return {2, 5, 5}; }
  bool batch_statistics() const override { return true; }
};

inline std::shared_ptr<SmallNetwork> make_small_network(const std::string& name, at::ScalarType dtype) {
  std::shared_ptr<SmallNetwork> network;
  if (name == "mlp") network = std::make_shared<SmallMlp>();
  if (name == "convolution") network = std::make_shared<SmallConvolution>();
  if (name == "residual") network = std::make_shared<SmallResidual>();
  if (name == "features") network = std::make_shared<SmallFeatures>();
  network->to(dtype);
  initialize(*network, 11);
  network->to(device());
  return network;
}

struct Examples {
  at::Tensor images, labels;
};

inline Examples make_examples(const SmallNetwork& network, std::int64_t count, at::ScalarType dtype,
                              std::uint64_t seed = 5) {
  auto shape = network.input();
  shape.insert(shape.begin(), count);
  auto generator = at::detail::createCPUGenerator(seed);
  return {on_device(torch::randn(shape, generator, torch::dtype(torch::kFloat64)).to(dtype)),
          on_device(torch::randint(0, 3, {count}, generator, torch::dtype(torch::kInt64)))};
}

inline at::Tensor losses_of(const at::Tensor& logits, const at::Tensor& labels) {
  return torch::nll_loss(torch::log_softmax(logits, 1), labels, {}, at::Reduction::None);
}

/// (a) The contribution of each example to the gradient of the summed loss, in the joint batch: [M, d] in float64, on
/// the CPU.
inline at::Tensor contributions(SmallNetwork& network, const Examples& examples) {
  const auto m = examples.images.size(0);
  std::vector<at::Tensor> copies;
  for (const auto& p : network.parameters()) {
    auto sizes = p.sizes().vec();
    sizes.insert(sizes.begin(), m);
    copies.push_back(p.detach().to(at::kDouble).unsqueeze(0).expand(sizes).clone().requires_grad_());
  }
  const auto losses = losses_of(network.reference(copies, examples.images.to(at::kDouble)), examples.labels);
  const auto gradients = torch::autograd::grad({losses.sum()}, copies);
  std::vector<at::Tensor> rows;
  for (const auto& g : gradients) rows.push_back(g.reshape({m, -1}));
  return torch::cat(rows, 1).cpu();
}

/// One row of parameters, in order, from a list of tensors shaped like them: float64, on the CPU.
inline at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const auto& t : tensors) parts.push_back(t.detach().to(at::kDouble).reshape({-1}).cpu());
  return torch::cat(parts);
}

/// (b) The gradient of each example's own loss, one backward each through the joint graph: [M, d] in float64.
inline at::Tensor single_gradients(SmallNetwork& network, const Examples& examples) {
  const auto losses = losses_of(network.forward(examples.images), examples.labels);
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < losses.size(0); ++i) {
    rows.push_back(flattened(torch::autograd::grad({losses[i]}, network.parameters(), {}, /*retain_graph=*/true)));
  }
  return torch::stack(rows);
}

}  // namespace covnoise::testing
