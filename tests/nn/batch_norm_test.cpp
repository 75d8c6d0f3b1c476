#include "covnoise/nn/batch_norm.h"

#include "nn/layer_case.h"

#include <gtest/gtest.h>

namespace covnoise::testing {
namespace {

constexpr double kEps = 1e-5;

class GhostNormLayer : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  GhostNormLayer()
      : layer_(torch::nn::BatchNormOptions(4).eps(kEps), 2), subject_(subject(layer_, GetParam(), {6, 4, 3, 5})) {}

  bool equal(const at::Tensor& a, const at::Tensor& b) const {
    return close(a, b, GetParam() == at::kDouble ? 1e-10 : 1e-4);
  }

  /// The joint batch with one copy of scale and shift for each example: contributions of examples [M, C] each.
  std::pair<at::Tensor, at::Tensor> contributions() const {
    std::vector<at::Tensor> normalised;
    for (const auto& ghost : subject_.x.split(2))
      normalised.push_back(at::batch_norm(ghost, {}, {}, {}, {}, true, 0.1, kEps, false));
    const auto weights = subject_.weight().detach().expand({6, 4}).clone().requires_grad_();
    const auto biases = subject_.bias().detach().expand({6, 4}).clone().requires_grad_();
    const auto y = at::cat(normalised) * weights.view({6, 4, 1, 1}) + biases.view({6, 4, 1, 1});
    (y * subject_.dz).sum().backward();
    return {weights.grad(), biases.grad()};
  }

  GhostBatchNorm2d layer_;
  Subject subject_;
};

TEST_P(GhostNormLayer, EqualsLibTorchLayerOnOneGhostBatchAfterAnother) {
  torch::nn::BatchNorm2d reference(torch::nn::BatchNormOptions(4).eps(kEps));
  reference->to(device(), GetParam());
  reference->weight.set_data(subject_.weight().detach().clone());
  reference->bias.set_data(subject_.bias().detach().clone());
  const auto x = subject_.x.clone().requires_grad_();
  std::vector<at::Tensor> outputs;
  for (const auto& ghost : x.split(2)) outputs.push_back(reference(ghost));
  (at::cat(outputs) * subject_.dz).sum().backward();
  const auto ours = gradients(subject_, subject_.x, subject_.dz);
  EXPECT_TRUE(equal(ours.x, x.grad()));
  EXPECT_TRUE(equal(ours.weight, reference->weight.grad()));
  EXPECT_TRUE(equal(ours.bias, reference->bias.grad()));
  EXPECT_TRUE(equal(layer_->running_mean, reference->running_mean));
  EXPECT_TRUE(equal(layer_->running_var, reference->running_var));
  layer_->eval();
  reference->eval();
  EXPECT_TRUE(equal(layer_(subject_.x), reference(subject_.x)));
}

TEST_P(GhostNormLayer, SquaresEqualOneCopyOfTheParametersPerExample) {
  const auto [weights, biases] = contributions();
  const auto exact = record_of(subject_, {Squares::kExact, true, true, 0});
  gradients(subject_, subject_.x, subject_.dz);
  EXPECT_TRUE(equal(exact->weight_squares, weights.pow(2).sum(0)));
  EXPECT_TRUE(equal(exact->bias_squares, biases.pow(2).sum(0)));
  EXPECT_TRUE(equal(exact->gram, weights.mm(weights.t()) + biases.mm(biases.t())));
  EXPECT_FALSE(exact->weight_draw.defined());
  const auto ghost = record_of(subject_, {Squares::kGhost, false, false, 2});
  gradients(subject_, subject_.x, subject_.dz);
  EXPECT_TRUE(equal(ghost->weight_squares, weights.view({3, 2, 4}).sum(1).pow(2).sum(0)));
  EXPECT_TRUE(equal(ghost->bias_squares, biases.view({3, 2, 4}).sum(1).pow(2).sum(0)));
}

INSTANTIATE_TEST_SUITE_P(Types, GhostNormLayer, ::testing::Values(at::kDouble, at::kFloat));

/// Features [M, C]: LibTorch's layer on one ghost batch after another, and one copy of the parameters for each example.
TEST(GhostBatchNorm1d, EqualsLibTorchLayerAndSquaresItsContributions) {
  GhostBatchNorm1d layer(torch::nn::BatchNormOptions(5), 3);
  const auto s = subject(layer, at::kDouble, {6, 5});
  torch::nn::BatchNorm1d reference(torch::nn::BatchNormOptions(5));
  reference->to(device(), at::kDouble);
  reference->weight.set_data(s.weight().detach().clone());
  reference->bias.set_data(s.bias().detach().clone());
  const auto x = s.x.clone().requires_grad_();
  std::vector<at::Tensor> outputs;
  for (const auto& ghost : x.split(3)) outputs.push_back(reference(ghost));
  (at::cat(outputs) * s.dz).sum().backward();
  const auto record = record_of(s, {Squares::kExact, false, false, 0});
  const auto ours = gradients(s, s.x, s.dz);
  EXPECT_TRUE(close(ours.x, x.grad(), 1e-10));
  EXPECT_TRUE(close(ours.weight, reference->weight.grad(), 1e-10));
  EXPECT_TRUE(close(layer->running_var, reference->running_var, 1e-10));
  const auto xhat = (at::cat(outputs).detach() - reference->bias) / reference->weight;
  EXPECT_TRUE(close(record->weight_squares, (s.dz * xhat).square().sum(0).detach(), 1e-8));
  EXPECT_TRUE(close(record->bias_squares, s.dz.square().sum(0), 1e-10));
  layer->eval();
  reference->eval();
  EXPECT_TRUE(close(layer(s.x), reference(s.x), 1e-10));
  layer->train();
  EXPECT_TRUE(close(layer->forward_relu(s.x), layer->forward(s.x).relu(), 1e-10));
  EXPECT_THROW(layer(s.x.unsqueeze(2)), c10::Error);
}

TEST(GhostBatchNorm2d, GradientEqualsFiniteDifferences) {
  GhostBatchNorm2d layer(torch::nn::BatchNormOptions(3), 2);
  const auto s = subject(layer, at::kDouble, {4, 3, 2, 3});
  const auto dx = gradients(s, s.x, s.dz).x;
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < s.x.numel(); i += 5) {
    const auto loss_at = [&](double step) {
      auto x = s.x.clone();
      x.view({-1})[i] += step;
      return (s.forward(x) * s.dz).sum().item<double>();
    };
    const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    EXPECT_NEAR(dx.view({-1})[i].item<double>(), difference, 1e-7);
  }
}

TEST(GhostBatchNorm2d, NormalisesOverTheWholeBatchAtZero) {
  GhostBatchNorm2d ghost(torch::nn::BatchNormOptions(3), 6);
  BatchNorm2d whole{torch::nn::BatchNormOptions(3)};
  const auto x = torch::randn({6, 3, 4, 4});
  EXPECT_TRUE(at::equal(whole(x), ghost(x)));
  set_ghost_batch(*ghost, 2);
  EXPECT_FALSE(at::allclose(whole(x), ghost(x)));
}

TEST(GhostBatchNorm2d, RefusesASecondDerivativeInTraining) {
  GhostBatchNorm2d layer(torch::nn::BatchNormOptions(3), 2);
  const auto x = torch::randn({4, 3, 2, 2}).requires_grad_();
  const auto loss = layer(x).pow(2).sum();
  EXPECT_THROW(torch::autograd::grad({loss}, {x}, {}, true, true), c10::Error);
}

TEST(GhostBatchNorm2d, RefusesOptionsItDoesNotHave) {
  EXPECT_THROW(GhostBatchNorm2d(torch::nn::BatchNormOptions(3).affine(false), 2), c10::Error);
  EXPECT_THROW(GhostBatchNorm2d(torch::nn::BatchNormOptions(3), -1), c10::Error);
}

}  // namespace
}  // namespace covnoise::testing
