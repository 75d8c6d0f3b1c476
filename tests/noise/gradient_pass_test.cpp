#include "covnoise/noise/gradient_pass.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/gradient_ready_hooks.h"
#include "covnoise/ops/random.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using testing::Examples;
using testing::SmallNetwork;

constexpr std::int64_t kExamples = 12;

GradientStatistics collect(GradientPass& pass, const Needs& needs, const Examples& examples, std::int64_t slice,
                           std::uint32_t step = 3) {
  pass.begin({needs, 17, step});
  for (std::int64_t first = 0; first < examples.labels.size(0); first += slice) {
    const auto n = std::min(slice, examples.labels.size(0) - first);
    pass.add(examples.images.narrow(0, first, n), examples.labels.narrow(0, first, n));
  }
  return pass.finish();
}

Needs squares(Squares squares) {
  Needs needs;
  needs.squares = squares;
  return needs;
}

struct Case {
  const char* network;
  at::ScalarType dtype;
};

class CollectorTest : public ::testing::TestWithParam<Case> {
 protected:
  CollectorTest()
      : network_(testing::make_small_network(GetParam().network, GetParam().dtype)),
        parameters_(*network_),
        pass_(*network_, [this](const at::Tensor& x) { return network_->forward(x); }, parameters_,
              {testing::kGhost, {}}),
        examples_(testing::make_examples(*network_, kExamples, GetParam().dtype)),
        contributions_(testing::contributions(*network_, examples_)) {}

  /// A buffer of the parameters' layout as one row without gaps, float64.
  at::Tensor row(const at::Tensor& buffer) const { return testing::flattened(parameters_.views(buffer)); }
  void expect_equal(const at::Tensor& actual, const at::Tensor& expected) const {
    const double tolerance = GetParam().dtype == at::kDouble ? 1e-10 : 1e-4;
    const double scale = expected.abs().max().item<double>();
    EXPECT_LT((actual - expected).abs().max().item<double>(), tolerance * scale);
  }

  std::shared_ptr<SmallNetwork> network_;
  FlatParameters parameters_;
  GradientPass pass_;
  Examples examples_;
  at::Tensor contributions_;  // [M, d]
};

TEST_P(CollectorTest, GradientIsTheMeanOverExamples) {
  const auto statistics = collect(pass_, {}, examples_, kExamples);
  expect_equal(row(statistics.gradient), contributions_.mean(0));
  EXPECT_FALSE(statistics.diagonal.defined());
}

TEST_P(CollectorTest, ExactSquaresEqualOneCopyOfTheParametersPerExample) {
  const auto statistics = collect(pass_, squares(Squares::kExact), examples_, kExamples);
  expect_equal(row(statistics.gradient), contributions_.mean(0));
  expect_equal(row(statistics.diagonal), contributions_.pow(2).mean(0));
}

TEST_P(CollectorTest, GhostSquaresEqualOneBackwardPerGhostBatch) {
  const auto statistics = collect(pass_, squares(Squares::kGhost), examples_, kExamples);
  std::vector<at::Tensor> means;
  for (std::int64_t j = 0; j < kExamples / testing::kGhost; ++j) {
    const auto images = examples_.images.narrow(0, j * testing::kGhost, testing::kGhost);
    const auto labels = examples_.labels.narrow(0, j * testing::kGhost, testing::kGhost);
    const auto losses = testing::losses_of(network_->forward(images), labels);
    means.push_back(testing::flattened(torch::autograd::grad({losses.mean()}, network_->parameters())));
  }
  expect_equal(row(statistics.diagonal), torch::stack(means).var(0) * testing::kGhost);
}

TEST_P(CollectorTest, SignedBackwardEqualsOneBackwardPerExample) {
  Needs needs;
  needs.extra = ExtraBackward::kSigned;
  const auto statistics = collect(pass_, needs, examples_, kExamples, 9);
  auto signs = torch::empty({kExamples}, torch::kFloat64);
  fill_signs(signs, {17, Purpose::kSigns, 9});
  const auto gradients = testing::single_gradients(*network_, examples_);
  expect_equal(row(statistics.draw), signs.matmul(gradients) / std::sqrt(kExamples));
  expect_equal(row(statistics.gradient), contributions_.mean(0));
}

TEST_P(CollectorTest, BothDefinitionsAgreeWithoutBatchStatistics) {
  const auto difference = (testing::single_gradients(*network_, examples_) - contributions_).abs().max().item<double>();
  if (network_->batch_statistics()) {
    EXPECT_GT(difference, 1e-3);  // they share their sum alone
  } else {
    EXPECT_LT(difference, GetParam().dtype == at::kDouble ? 1e-12 : 1e-4);
  }
}

TEST_P(CollectorTest, SlicesDoNotChangeTheStatistics) {
  for (const auto estimator : {Squares::kExact, Squares::kGhost, Squares::kSpatial}) {
    Needs needs = squares(estimator);
    needs.extra = ExtraBackward::kSampledLabels;
    const auto whole = collect(pass_, needs, examples_, kExamples);
    const auto gradient = row(whole.gradient), diagonal = row(whole.diagonal), draw = row(whole.draw);
    for (const std::int64_t slice : {4, 8}) {
      const auto sliced = collect(pass_, needs, examples_, slice);
      expect_equal(row(sliced.gradient), gradient);
      expect_equal(row(sliced.diagonal), diagonal);
      expect_equal(row(sliced.draw), draw);
    }
  }
}

/// The statistics of a part while the backward pass is still at work on the layers before it.
TEST_P(CollectorTest, PartsAreFinishedWhileTheBackwardPassIsRunning) {
  const std::size_t count = parameters_.entries().size();
  for (const auto estimator : {Squares::kExact, Squares::kGhost}) {
    const auto whole = collect(pass_, squares(estimator), examples_, kExamples);
    const auto gradient = row(whole.gradient), diagonal = row(whole.diagonal);
    const FlatParameters part = parameters_.slice(count - 2, count);  // weight and bias of the last layer
    at::Tensor part_gradient, part_diagonal;
    std::vector<std::size_t> done;
    const GradientReadyHooks watch(*network_, [&](std::size_t parameter) {
      done.push_back(parameter);
      if (done.size() != 2) return;
      const auto statistics = pass_.finish_slice(part);
      part_gradient = statistics.gradient.clone(), part_diagonal = statistics.diagonal.clone();
    });
    const auto again = collect(pass_, squares(estimator), examples_, kExamples);
    EXPECT_EQ(done.size(), count);
    EXPECT_TRUE(part_gradient.equal(part.slice_of(again.gradient)));
    EXPECT_TRUE(part_diagonal.equal(part.slice_of(again.diagonal)));
    expect_equal(row(again.gradient), gradient);
    expect_equal(row(again.diagonal), diagonal);
  }
}

TEST_P(CollectorTest, SpatialSquaresDropTheCrossTermsOfPositions) {
  const auto statistics = collect(pass_, squares(Squares::kSpatial), examples_, kExamples);
  const auto exact = contributions_.pow(2).mean(0);
  std::int64_t first = 0;
  for (const auto& entry : parameters_.entries()) {
    const auto actual = parameters_.view(statistics.diagonal, entry).cpu().to(at::kDouble).reshape({-1});
    const auto expected = exact.narrow(0, first, entry.numel);
    const bool convolution = entry.name.find("conv") == 0 && entry.name.find("weight") != std::string::npos;
    if (!convolution && entry.name.find("conv") != 0 && entry.name.find("bn") != 0) {
      expect_equal(actual, expected);  // one position: the same
    } else if (convolution) {
      EXPECT_GT((actual - expected).abs().max().item<double>(), 0.1 * expected.abs().max().item<double>())
          << entry.name;
    }
    first += entry.numel;
  }
}

TEST_P(CollectorTest, KroneckerFactorAndDrawOfTheLastLayerEqualTheirDefinition) {
  const auto index = static_cast<std::uint32_t>(Recorder(*network_, parameters_).layers().size()) - 1;
  const auto purpose = static_cast<Purpose>(static_cast<std::uint32_t>(Purpose::kInputs) + (index << 8));
  Needs needs = squares(Squares::kExact);
  needs.kronecker = true;
  const auto statistics = collect(pass_, needs, examples_, 4);
  // The last layer is linear: its bias gradients are Dz, and [weight gradient, Dz] = Dz [a, 1]^T.
  const auto& last = statistics.factors.back();
  const auto dz = contributions_.narrow(1, contributions_.size(1) - 3, 3);
  expect_equal(last.output.cpu().to(at::kDouble), dz.t().matmul(dz) / kExamples);
  const auto drawn = [&](std::size_t entry) {
    return parameters_.view(statistics.draw, parameters_.entries()[entry]).cpu().to(at::kDouble);
  };
  const std::int64_t inputs = drawn(last.weight).size(1);
  const auto weight =
      contributions_.narrow(1, contributions_.size(1) - 3 - 3 * inputs, 3 * inputs).reshape({-1, 3, inputs});
  const auto a = (weight * dz.unsqueeze(2)).sum(1) / dz.pow(2).sum(1, true);  // [M, inputs]
  auto xi = testing::on_device(torch::empty({kExamples, 4}, torch::kFloat64));
  fill_normal(xi, {17, purpose, 3});
  const auto expected = xi.cpu().narrow(1, 0, 3) / std::sqrt(static_cast<double>(kExamples));
  expect_equal(drawn(last.weight), expected.t().matmul(a));
  expect_equal(drawn(static_cast<std::size_t>(last.bias)), expected.sum(0));
}

TEST_P(CollectorTest, SquaresOfModelLabelsAreThoseOfALabelledBatch) {
  Needs needs = squares(Squares::kExact);
  needs.labels = Labels::kModel;
  const auto of_model = collect(pass_, needs, examples_, kExamples);
  const auto actual = row(of_model.diagonal);
  const torch::NoGradGuard no_grad;
  const auto probabilities = torch::softmax(network_->forward(examples_.images).to(at::kDouble), 1).cumsum(1);
  auto u = testing::on_device(torch::empty({kExamples}, torch::kFloat64));
  fill_uniform(u, {17, Purpose::kLabels, 3});
  const torch::AutoGradMode grad(true);
  const Examples relabelled{examples_.images, probabilities.lt(u.unsqueeze(1)).sum(1).clamp_max(2)};
  expect_equal(actual, testing::contributions(*network_, relabelled).pow(2).mean(0));
  expect_equal(row(of_model.gradient), contributions_.mean(0));
}

INSTANTIATE_TEST_SUITE_P(Networks, CollectorTest,
                         ::testing::Values(Case{"mlp", at::kDouble}, Case{"convolution", at::kDouble},
                                           Case{"residual", at::kDouble}, Case{"features", at::kDouble},
                                           Case{"mlp", at::kFloat}, Case{"convolution", at::kFloat},
                                           Case{"residual", at::kFloat}),
                         [](const auto& info) {
                           return std::string(info.param.network) +
                                  (info.param.dtype == at::kDouble ? "Double" : "Float");
                         });

struct WithForeignLayer : torch::nn::Module {
  torch::nn::Linear foreign{register_module("foreign", torch::nn::Linear(3, 4))};
  Linear own{register_module("own", Linear(4, 3))};
};

TEST(GradientPass, RefusesAParameterOfAnUnknownLayerByName) {
  WithForeignLayer network;
  FlatParameters parameters(network);
  const auto forward = [&](const at::Tensor& x) { return network.own(network.foreign(x)); };
  GradientPass strict(network, forward, parameters, {});
  EXPECT_THAT([&] { strict.begin({squares(Squares::kExact)}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("'foreign.weight'")));
  GradientPass tolerant(network, forward, parameters, {0, 0, {"foreign.weight", "foreign.bias"}});
  tolerant.begin({squares(Squares::kExact)});
  tolerant.add(torch::ones({2, 3}), torch::zeros({2}, torch::kInt64));
  const auto statistics = tolerant.finish();
  EXPECT_EQ(parameters.view(statistics.diagonal, parameters.entries()[0]).abs().sum().item<double>(), 0);
  EXPECT_GT(parameters.view(statistics.diagonal, parameters.entries()[2]).abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace covnoise
