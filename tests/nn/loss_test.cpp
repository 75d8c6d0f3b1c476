#include "covnoise/nn/loss.h"

#include "support/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>

namespace covnoise {
namespace {

namespace F = torch::nn::functional;

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return testing::on_device(torch::randn(sizes, generator, torch::dtype(torch::kFloat64)));
}

bool close(const at::Tensor& a, const at::Tensor& b) { return a.allclose(b, 1e-12, 1e-14); }

TEST(Loss, CrossEntropyIsTorchs) {
  const auto logits = random({6, 5}, 1), labels = testing::on_device(torch::tensor({0, 4, 2, 2, 1, 3}, torch::kInt64));
  for (const double smoothing : {0.0, 0.1}) {
    const auto options = F::CrossEntropyFuncOptions().reduction(torch::kNone).label_smoothing(smoothing);
    const auto losses = cross_entropy(logits, labels, smoothing);
    EXPECT_TRUE(close(losses.values, F::cross_entropy(logits, labels, options)));
    EXPECT_TRUE(losses.correct.equal(logits.argmax(1).eq(labels)));
  }
  EXPECT_THROW(cross_entropy(logits, labels, 1), c10::Error);
}

TEST(Loss, MeanSquaredErrorIsTorchs) {
  const auto predictions = random({6, 2, 3}, 1), targets = random({6, 2, 3}, 2);
  const auto losses = mean_squared_error(predictions, targets);
  EXPECT_EQ(losses.values.sizes(), at::IntArrayRef({6}));
  EXPECT_TRUE(close(losses.values.mean(), F::mse_loss(predictions, targets)));
  EXPECT_FALSE(losses.correct.defined());
}

TEST(Loss, BinaryCrossEntropyIsTorchs) {
  const auto logits = random({6, 3}, 1), targets = testing::on_device(torch::arange(18).remainder(2).view({6, 3}));
  const auto losses = covnoise::binary_cross_entropy(logits, targets);
  EXPECT_TRUE(close(losses.values.mean(), F::binary_cross_entropy_with_logits(logits, targets.to(at::kDouble))));
  EXPECT_TRUE(losses.correct.equal(logits.gt(0).eq(targets.eq(1)).all(1)));
}

/// [M] against [M, 1] would broadcast to [M, M].
TEST(Loss, OtherSizesOfTheTargetsAreRefused) {
  const auto a = random({6, 1}, 1), b = random({6}, 2);
  EXPECT_THAT([&] { mean_squared_error(a, b); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("same sizes")));
  EXPECT_THROW(covnoise::binary_cross_entropy(a, b), c10::Error);
}

/// Uniform numbers on a grid: means over them are integrals.
at::Tensor grid(std::int64_t count) {
  return testing::on_device((torch::arange(count).to(at::kDouble) + 0.5) / count).unsqueeze(1);
}

/// d/dp of the loss of drawn targets is sqrt(2) times a standard normal number.
TEST(Loss, DrawnTargetsOfARegressionAreNormal) {
  const auto predictions = testing::on_device(torch::full({4000, 1}, 0.3, torch::kFloat64)).requires_grad_();
  const auto losses = mean_squared_error(predictions, predictions.detach());
  const auto drawn = losses.of_drawn_labels([](std::int64_t columns) { return grid(4000).expand({-1, columns}); });
  const auto score = torch::autograd::grad({drawn.sum()}, {predictions})[0];
  EXPECT_NEAR(score.mean().item<double>(), 0, 1e-9);
  EXPECT_NEAR(score.square().mean().item<double>(), 2, 4e-3);
}

TEST(Loss, DrawnTargetsOfABinaryLossFollowTheProbability) {
  const auto logits = testing::on_device(torch::full({1000, 1}, 0.7, torch::kFloat64)).requires_grad_();
  const auto losses = covnoise::binary_cross_entropy(logits, torch::zeros_like(logits));
  const auto drawn = losses.of_drawn_labels([](std::int64_t) { return grid(1000); });
  const double p = 1 / (1 + std::exp(-0.7));
  const auto score = torch::autograd::grad({drawn.sum()}, {logits})[0];  // p - y
  EXPECT_NEAR(score.mean().item<double>(), 0, 1e-3);
  EXPECT_NEAR(score.square().mean().item<double>(), p * (1 - p), 1e-3);
}

}  // namespace
}  // namespace covnoise
