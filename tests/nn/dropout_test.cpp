#include "covnoise/nn/dropout.h"

#include "covnoise/ops/random.h"
#include "support/device.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

constexpr std::int64_t kBatch = 12, kUnits = 10;  // not a multiple of the stream's blocks

at::Tensor ones(std::int64_t examples, at::ScalarType dtype = at::kFloat) {
  return testing::on_device(torch::ones({examples, kUnits}, dtype));
}

/// What remains of a batch of ones.
at::Tensor kept(Dropout& layer, std::uint64_t seed, std::uint32_t step) {
  layer->start(seed, step);
  return layer(ones(kBatch)).cpu();
}

/// By the definition: unit u of example i from number 12 i + u of the stream, each example with whole blocks of 4.
TEST(Dropout, IsAPureFunctionOfSeedStepExampleAndUnit) {
  Dropout layer(0.25, 3);
  auto uniforms = torch::empty({kBatch, 12});
  fill_uniform(uniforms, {7, nth(Purpose::kDropout, 3), 5});
  const auto expected = uniforms.narrow(1, 0, kUnits).gt(0.25).to(at::kFloat) / 0.75;
  EXPECT_TRUE(kept(layer, 7, 5).allclose(expected));
  kept(layer, 7, 6);
  EXPECT_TRUE(kept(layer, 7, 5).allclose(expected)) << "a step forgets the one before";
  Dropout other(0.25, 4);
  EXPECT_FALSE(kept(other, 7, 5).allclose(expected));
  EXPECT_FALSE(kept(layer, 7, 4).allclose(expected));
  EXPECT_FALSE(kept(layer, 8, 5).allclose(expected));
}

TEST(Dropout, DropsTheSameUnitsInMicroBatchesShardsAndPrecisions) {
  Dropout layer(0.5, 0);
  const auto whole = kept(layer, 7, 5);
  for (const std::int64_t slice : {4, 8}) {
    layer->start(7, 5);
    for (std::int64_t first = 0; first < kBatch; first += slice) {
      const auto count = std::min(slice, kBatch - first);
      layer->set_offset(first);
      EXPECT_TRUE(layer(ones(count)).cpu().equal(whole.narrow(0, first, count)));
    }
  }
  layer->start(7, 5, 4);  // a shard that begins with the example 4 of the large batch
  layer->set_offset(2);
  EXPECT_TRUE(layer(ones(3)).cpu().equal(whole.narrow(0, 6, 3)));
  layer->start(7, 5);
  EXPECT_TRUE(layer(ones(kBatch, at::kDouble)).cpu().to(at::kFloat).equal(whole));
}

/// Three rows of each example, as layers see them that are applied to each element of a sequence.
TEST(Dropout, DropsTheSameUnitsOfFoldedRows) {
  Dropout layer(0.5, 0);
  constexpr std::int64_t kRows = 3;
  layer->start(7, 5);
  layer->set_offset(0, kBatch);
  const auto whole = layer(ones(kRows * kBatch)).cpu();
  layer->start(7, 5, 2);  // a shard
  layer->set_offset(4, 5);
  EXPECT_TRUE(layer(ones(kRows * 5)).cpu().equal(whole.narrow(0, kRows * 6, kRows * 5)));
  EXPECT_THROW(layer(ones(7)), c10::Error);
}

/// A captured forward pass keeps reading the tensors of its first run: `start` must fill those.
TEST(Dropout, RefillsTheTensorsOfEarlierPasses) {
  Dropout layer(0.5, 0);
  std::vector<at::Tensor> steps;
  for (std::uint32_t step = 0; step < 2; ++step) steps.push_back(kept(layer, 7, step));
  Dropout fresh(0.5, 0);
  EXPECT_TRUE(kept(fresh, 7, 1).equal(steps[1]));
  EXPECT_FALSE(steps[0].equal(steps[1]));
}

TEST(Dropout, HasItsRateMeanAndGradient) {
  Dropout layer(0.3, 0);
  layer->start(1, 0);
  auto x = testing::on_device(torch::ones({1000, 100})).requires_grad_();
  const auto y = layer(x);
  // 10^5 draws: the standard error of the rate is 0.0015.
  EXPECT_NEAR(y.eq(0).to(at::kFloat).mean().item<double>(), 0.3, 0.006);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.01);
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(y));
}

TEST(Dropout, IsTheIdentityInEvaluation) {
  Dropout layer(0.5, 0);
  layer->eval();
  EXPECT_TRUE(layer(ones(3)).equal(ones(3)));
}

TEST(Dropout, RefusesToTrainWithoutAStep) {
  Dropout layer(0.5, 0);
  EXPECT_THROW(layer(ones(3)), c10::Error);
  EXPECT_THROW(Dropout(1.0, 0), c10::Error);
}

}  // namespace
}  // namespace covnoise
