// GradientPass::Options::sharpness: mean_j grad L_j(theta + rho g_j / |g_j|) over micro-batches, by brute force.
#include "covnoise/core/error.h"
#include "covnoise/noise/gradient_pass.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>

namespace covnoise {
namespace {

constexpr std::int64_t kBatch = 16;
constexpr double kRho = 0.3;

/// Micro-batches of 4 or 8 examples.
class SharpnessTest : public ::testing::TestWithParam<std::tuple<std::string, std::int64_t>> {
 protected:
  SharpnessTest()
      : micro_(std::get<1>(GetParam())),
        dtype_(testing::device().is_cpu() ? at::kDouble : at::kFloat),
        network_(testing::make_small_network(std::get<0>(GetParam()), dtype_)),
        plain_(testing::make_small_network(std::get<0>(GetParam()), dtype_)),
        examples_(testing::make_examples(*network_, kBatch, dtype_)),
        parameters_(*network_) {}

  testing::Examples micro_batch(std::int64_t first) const {
    return {examples_.images.narrow(0, first, micro_), examples_.labels.narrow(0, first, micro_)};
  }

  /// Calls use(micro-batch) while `plain_` has the weights theta + rho g_j / |g_j|.
  template <class Use>
  void at_ascended(const Use& use) {
    for (std::int64_t first = 0; first < kBatch; first += micro_) {
      const auto examples = micro_batch(first);
      const auto loss = testing::losses_of(plain_->forward(examples.images), examples.labels).sum();
      loss_ += loss.item<double>();
      const auto gradients = torch::autograd::grad({loss}, plain_->parameters());
      const double norm = testing::flattened(gradients).norm().item<double>();
      std::vector<at::Tensor> before, buffers;
      for (const auto& parameter : plain_->parameters()) before.push_back(parameter.detach().clone());
      for (const auto& buffer : plain_->buffers()) buffers.push_back(buffer.clone());
      for (std::size_t i = 0; i < before.size(); ++i) plain_->parameters()[i].data().add_(gradients[i], kRho / norm);
      use(examples);
      for (std::size_t i = 0; i < before.size(); ++i) plain_->parameters()[i].data().copy_(before[i]);
      for (std::size_t i = 0; i < buffers.size(); ++i) plain_->buffers()[i].copy_(buffers[i]);
    }
  }

  GradientStatistics run(const Needs& needs) {
    pass_ = std::make_unique<GradientPass>(
        *network_, [this](const at::Tensor& x) { return network_->forward(x); }, parameters_,
        GradientPass::Options{testing::kGhost, micro_, {}, kRho});
    GradientPass::Batch batch;
    batch.size = kBatch;
    batch.load = [this](std::int64_t first, std::int64_t count) {
      return GradientPass::Examples{examples_.images.narrow(0, first, count), examples_.labels.narrow(0, first, count)};
    };
    return pass_->run({needs}, batch).statistics;
  }

  at::Tensor flat(const at::Tensor& buffer) const { return testing::flattened(parameters_.views(buffer)); }
  double tolerance() const { return dtype_ == at::kDouble ? 1e-12 : 2e-4; }

  std::int64_t micro_;
  at::ScalarType dtype_;
  std::shared_ptr<testing::SmallNetwork> network_, plain_;
  testing::Examples examples_;
  FlatParameters parameters_;
  std::unique_ptr<GradientPass> pass_;
  double loss_ = 0;
};

TEST_P(SharpnessTest, IsTheMeanOfGradientsAtTheAscendedWeights) {
  const auto theta = parameters_.values().clone();
  at::Tensor expected = at::zeros({parameters_.count()}, at::kDouble);
  at_ascended([&](const testing::Examples& examples) {
    const auto loss = testing::losses_of(plain_->forward(examples.images), examples.labels).sum() / kBatch;
    expected += testing::flattened(torch::autograd::grad({loss}, plain_->parameters()));
  });
  const auto gradient = flat(run({}).gradient);
  EXPECT_LT((gradient - expected).abs().max().item<double>(), tolerance() * expected.abs().max().item<double>());
  EXPECT_TRUE(at::equal(parameters_.values(), theta));
  EXPECT_NEAR(pass_->loss_sum().item<double>(), loss_, tolerance() * loss_);  // at theta
  const auto here = network_->buffers(), there = plain_->buffers();           // of the passes at theta
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(here[i].allclose(there[i], tolerance(), tolerance()));
}

/// The statistics of the noise are those of the second passes.
TEST_P(SharpnessTest, HasTheSquaresAndDrawsOfTheSecondPass) {
  at::Tensor squares = at::zeros({parameters_.count()}, at::kDouble);
  at_ascended([&](const testing::Examples& examples) {
    squares += testing::contributions(*plain_, examples).square().sum(0) / kBatch;
  });
  Needs needs;
  needs.squares = Squares::kExact;
  const auto diagonal = flat(run(needs).diagonal);
  EXPECT_LT((diagonal - squares).abs().max().item<double>(), 10 * tolerance() * squares.max().item<double>());
}

INSTANTIATE_TEST_SUITE_P(Networks, SharpnessTest,
                         ::testing::Combine(::testing::Values("mlp", "convolution", "residual", "features"),
                                            ::testing::Values(4, 8)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param));
                         });

/// Without a gradient there is no way up.
TEST(Sharpness, OfAFlatLossStays) {
  const auto network = testing::make_small_network("mlp", at::kFloat);
  FlatParameters parameters(*network);
  parameters.values().zero_();  // equal logits; only the last bias has a gradient, and equal labels cancel it
  const auto x = testing::on_device(torch::zeros({3, 3})), y = testing::on_device(torch::arange(3));
  GradientPass pass(*network, [&](const at::Tensor& images) { return network->forward(images); }, parameters,
                    {0, 3, {}, 10});
  pass.begin({});
  pass.add(x, y);
  EXPECT_LT(pass.finish().gradient.abs().max().item<double>(), 1e-6);
}

/// Two passes that drop different units have no common loss to ascend.
TEST(Sharpness, RefusesDropoutThatDrawsAnewInEveryPass) {
  const auto network = testing::make_small_network("mlp", at::kFloat);
  network->register_module("theirs", torch::nn::Dropout(0.5));
  FlatParameters parameters(*network);
  const auto make = [&] {
    GradientPass(*network, [&](const at::Tensor& x) { return network->forward(x); }, parameters, {0, 0, {}, 0.1});
  };
  EXPECT_THAT(make, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("layer 'theirs' is PyTorch's own dropout")));
}

/// Masks and counters, which are not floating-point.
TEST(Sharpness, LeavesBuffersOfOtherTypesAsTheyWere) {
  const auto network = testing::make_small_network("mlp", at::kFloat);
  const auto mask = testing::on_device(torch::tensor({true, false})), count = testing::on_device(torch::tensor(7));
  network->register_buffer("mask", mask);
  network->register_buffer("count", count);
  FlatParameters parameters(*network);
  const auto forward = [&](const at::Tensor& images) {
    count.add_(1);
    mask.logical_not_();
    return network->forward(images);
  };
  GradientPass pass(*network, forward, parameters, {0, 3, {}, 0.1});
  pass.begin({});
  const auto data = testing::make_examples(*network, 3, at::kFloat);
  pass.add(data.images, data.labels);
  pass.finish();
  EXPECT_EQ(count.item<std::int64_t>(), 8) << "as after the first of the two passes";
  EXPECT_FALSE(mask[0].item<bool>());
  EXPECT_TRUE(mask[1].item<bool>());
}

TEST(Sharpness, BelowZeroIsRefused) {
  const auto network = testing::make_small_network("mlp", at::kFloat);
  FlatParameters parameters(*network);
  const auto make = [&] {
    GradientPass(*network, [&](const at::Tensor& x) { return network->forward(x); }, parameters, {0, 0, {}, -1});
  };
  EXPECT_THAT(make, ::testing::Throws<c10::Error>());
}

}  // namespace
}  // namespace covnoise
