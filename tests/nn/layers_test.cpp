#include "nn/layer_case.h"

#include "covnoise/core/threads.h"
#include "covnoise/nn/initialize.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

namespace covnoise::testing {
namespace {

/// The same parameters in LibTorch's own layer.
template <class Theirs>
void expect_equals(const Subject& ours, Theirs theirs, double tolerance) {
  theirs->to(ours.x.scalar_type());
  theirs->weight.set_data(ours.weight().detach().clone());
  if (ours.bias().defined()) theirs->bias.set_data(ours.bias().detach().clone());
  const auto x = ours.x.clone().requires_grad_();
  (theirs(x) * ours.dz).sum().backward();
  record_of(ours, {Squares::kExact, false, false, 0});
  const auto g = gradients(ours, ours.x, ours.dz);
  EXPECT_TRUE(close(ours.forward(ours.x), theirs(ours.x), tolerance));
  EXPECT_TRUE(close(g.x, x.grad(), tolerance));
  EXPECT_TRUE(close(g.weight, theirs->weight.grad(), tolerance));
  if (ours.bias().defined()) {
    EXPECT_TRUE(close(g.bias, theirs->bias.grad(), tolerance));
  }
}

class Layers : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  double tolerance() const { return GetParam() == at::kDouble ? 1e-10 : 1e-4; }
};

TEST_P(Layers, LinearEqualsLibTorch) {
  const auto options = torch::nn::LinearOptions(5, 3);
  expect_equals(subject(Linear(options), GetParam(), {6, 5}), torch::nn::Linear(options), tolerance());
}

TEST_P(Layers, Conv2dEqualsLibTorch) {
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t groups : {1, 2}) {
      const auto options = conv_options(stride, 1, 1, groups, groups == 1);
      expect_equals(subject(Conv2d(options), GetParam(), {6, 4, 7, 8}), torch::nn::Conv2d(options), tolerance());
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Layers, ::testing::Values(at::kDouble, at::kFloat));

TEST(Conv2d, RefusesPaddingItDoesNotHave) {
  EXPECT_THROW(Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(torch::kSame)), c10::Error);
  EXPECT_THROW(Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1).padding_mode(torch::kReflect)), c10::Error);
  EXPECT_THROW(Conv2d(torch::nn::Conv2dOptions(3, 4, 3).groups(2)), c10::Error);
}

torch::nn::Sequential small_network() {
  return torch::nn::Sequential(Conv2d(torch::nn::Conv2dOptions(8, 32, 3)),
                               GhostBatchNorm2d(torch::nn::BatchNormOptions(32), 2), Linear(400, 300));
}

TEST(Initialize, IsAFunctionOfTheSeedAlone) {
  auto first = small_network(), second = small_network(), other = small_network();
  initialize(*first, 5);
  torch::manual_seed(99);
  set_threads(1);
  initialize(*second, 5);
  set_threads(0);
  initialize(*other, 6);
  for (std::size_t i = 0; i < first->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(first->parameters()[i], second->parameters()[i]));
  EXPECT_FALSE(at::allclose(first->parameters()[0], other->parameters()[0]));
}

TEST(Initialize, DrawsHeNormalAndPyTorchsDefault) {
  auto network = small_network();
  initialize(*network, 1);
  const auto parameters = network->named_parameters();
  const auto conv = parameters["0.weight"].to(at::kDouble);  // 2304 draws: standard error of std is 1.5 %
  EXPECT_NEAR(conv.std().item<double>(), std::sqrt(2.0 / (32 * 9)), 4 * 0.015 * std::sqrt(2.0 / (32 * 9)));
  EXPECT_EQ(parameters["0.bias"].abs().max().item<double>(), 0);
  EXPECT_EQ(parameters["1.weight"].min().item<double>(), 1);
  const auto linear = parameters["2.weight"].to(at::kDouble) * 20;  // uniform in (-1, 1)
  EXPECT_LE(linear.abs().max().item<double>(), 1);
  EXPECT_NEAR(linear.pow(2).mean().item<double>(), 1.0 / 3, 4 * 0.3 / std::sqrt(120000.0));
  EXPECT_NEAR(linear.mean().item<double>(), 0, 4 * 0.58 / std::sqrt(120000.0));
}

}  // namespace
}  // namespace covnoise::testing
