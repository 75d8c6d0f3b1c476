// The estimator `micro`: squares of any module from the gradients of micro-batches.
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

namespace covnoise {
namespace {

/// Layers of other people, and a parameter without a layer.
struct Foreign : torch::nn::Module {
  torch::nn::LSTM lstm{register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 2).batch_first(true)))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(2, 3))};
  at::Tensor scale{register_parameter("scale", torch::full({2}, 1.5))};
  at::Tensor forward(const at::Tensor& x) {  // [M, 4, 2]
    return out(std::get<0>(lstm->forward(x)).select(1, -1) * scale);
  }
};

class Micro : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPopulation = 3, kMicroBatch = 2, kMicroBatches = 2;

  Micro() {
    torch::manual_seed(4);
    network_ = std::make_shared<Foreign>();
    network_->to(testing::device(), at::kDouble);
    parameters_ = std::make_unique<FlatParameters>(*network_);
    pass_ = std::make_unique<GradientPass>(
        *network_, [this](const at::Tensor& x) { return network_->forward(x); }, *parameters_, GradientPass::Options{});
    images_ = testing::on_device(torch::randn({kPopulation, 4, 2}, torch::kFloat64));
    labels_ = testing::on_device(torch::arange(kPopulation));
  }

  /// The examples in micro-batches of that size.
  GradientStatistics collect(const std::vector<std::int64_t>& indices, std::int64_t micro_batch = kMicroBatch) {
    const auto chosen = testing::on_device(torch::tensor(indices, torch::kInt64));
    Needs needs;
    needs.squares = Squares::kMicro;
    pass_->begin({needs});
    for (const auto& part : chosen.split(micro_batch))
      pass_->add(images_.index_select(0, part), labels_.index_select(0, part));
    return pass_->finish();
  }
  at::Tensor row(const at::Tensor& buffer) const { return testing::flattened(parameters_->views(buffer)); }
  at::Tensor gradient_of(std::int64_t example) {
    const auto loss =
        testing::losses_of(network_->forward(images_.narrow(0, example, 1)), labels_.narrow(0, example, 1));
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : trainable_parameters(*network_)) tensors.push_back(tensor);
    return testing::flattened(torch::autograd::grad({loss.sum()}, tensors));
  }

  std::shared_ptr<Foreign> network_;
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<GradientPass> pass_;
  at::Tensor images_, labels_;
};

/// Over all 3^4 batches drawn with replacement, the mean estimate is the diagonal of the covariance of one example's
/// gradient, without sampling error.
TEST_F(Micro, IsUnbiasedOverAllBatches) {
  std::vector<at::Tensor> gradients;
  for (std::int64_t i = 0; i < kPopulation; ++i) gradients.push_back(gradient_of(i));
  const auto covariance = torch::stack(gradients).var(0, /*unbiased=*/false);
  at::Tensor estimate = torch::zeros_like(covariance), mean = torch::zeros_like(covariance);
  for (std::int64_t code = 0; code < 81; ++code) {
    const auto statistics = collect({code % 3, code / 3 % 3, code / 9 % 3, code / 27});
    EXPECT_TRUE(statistics.centred);
    estimate += row(statistics.diagonal) / 81;
    mean += row(statistics.gradient) / 81;
  }
  EXPECT_LT((estimate - covariance).abs().max().item<double>(), 1e-12);
  EXPECT_LT((mean - torch::stack(gradients).mean(0)).abs().max().item<double>(), 1e-12);
}

TEST_F(Micro, IsTheVarianceBetweenMicroBatches) {
  const auto statistics = collect({0, 1, 2, 2, 1, 1});
  std::vector<at::Tensor> means;
  for (const auto& [a, b] : {std::pair<int, int>{0, 1}, {2, 2}, {1, 1}})
    means.push_back((gradient_of(a) + gradient_of(b)) / 2);
  const auto expected = torch::stack(means).var(0) * kMicroBatch;
  EXPECT_LT((row(statistics.diagonal) - expected).abs().max().item<double>(), 1e-12);
}

TEST_F(Micro, RefusesOneMicroBatchAndUnequalOnes) {
  using ::testing::HasSubstr;
  EXPECT_THAT([&] { collect({0, 1}); }, ::testing::ThrowsMessage<c10::Error>(HasSubstr("at least two micro-batches")));
  EXPECT_THAT(
      [&] {
        collect({0, 1, 2});
      },
      ::testing::ThrowsMessage<c10::Error>(HasSubstr("micro-batches of one size")));
}

TEST_F(Micro, LeavesNamedParametersWithoutNoise) {
  GradientPass::Options options;
  options.without_noise = {"scale"};
  pass_ = std::make_unique<GradientPass>(
      *network_, [this](const at::Tensor& x) { return network_->forward(x); }, *parameters_, options);
  const auto statistics = collect({0, 1, 2, 2});
  for (const auto& entry : parameters_->entries()) {
    const double sum = parameters_->view(statistics.diagonal, entry).sum().item<double>();
    EXPECT_EQ(sum == 0, entry.name == "scale") << entry.name;
  }
}

TEST_F(Micro, IsWhatAutoTakesForLayersThatCannotAccount) {
  NoiseOptions options;
  options.structure = "diag-fisher";
  EXPECT_EQ(Injection(options, *network_).estimator(), "micro");
  EXPECT_EQ(Injection(options, *network_).structure_needs().squares, Squares::kMicro);
  EXPECT_EQ(Injection(options, *testing::make_small_network("mlp", at::kDouble)).estimator(), "exact");
  EXPECT_EQ(Injection(options, *testing::make_small_network("residual", at::kDouble)).estimator(), "ghost");
  options.structure = "full-fisher";
  EXPECT_EQ(Injection(options, *network_).estimator(), "auto");  // nothing is estimated
}

}  // namespace
}  // namespace covnoise
