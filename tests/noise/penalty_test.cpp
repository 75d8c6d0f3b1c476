// The ghost penalty against brute force: every pattern of signs, second derivatives by autograd.
#include "covnoise/noise/penalty.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/dropout.h"
#include "covnoise/ops/random.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>

#include <cmath>
#include <map>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kLambda = 0.3;
constexpr std::int64_t kPenaltyGroup = testing::kGhost, kPenaltyGroups = 4;
constexpr std::int64_t kPenaltyExamples = kPenaltyGroup * kPenaltyGroups;
constexpr std::uint64_t kPenaltySeed = 17;

NoiseOptions penalty_options(double step) {
  NoiseOptions options;
  options.small_batch = kPenaltyGroup;
  options.penalty = kLambda;
  options.penalty_step = step;
  return options;
}

StepContext penalty_context(std::int64_t step) {
  StepContext context;
  context.step = step;
  context.batch = kPenaltyExamples;
  return context;
}

/// A network, its gradient pass and 16 examples in 4 groups.
struct Penalised {
  testing::SmallNetwork& network;
  FlatParameters parameters{network};
  GradientPass pass{network, [this](const at::Tensor& x) { return network.forward(x) * logit_scale; }, parameters, {}};
  testing::Examples examples = testing::make_examples(network, kPenaltyExamples, at::kDouble);
  double logit_scale = 1;

  explicit Penalised(testing::SmallNetwork& network) : network(network) {}

  void pass_over(std::int64_t step, const GradientPass::GroupSigns& signs, std::int64_t micro_batch,
                 const Needs& needs = {}) {
    pass.begin({needs, kPenaltySeed, static_cast<std::uint32_t>(step), 0, signs});
    for (std::int64_t first = 0; first < kPenaltyExamples; first += micro_batch) {
      const auto count = std::min(micro_batch, kPenaltyExamples - first);
      pass.add(examples.images.narrow(0, first, count), examples.labels.narrow(0, first, count));
    }
  }
  /// What the penalty adds to the gradient, and its value.
  std::pair<at::Tensor, double> penalty(const NoiseOptions& options, std::int64_t step, std::int64_t micro_batch) {
    GhostPenalty penalty(options, network, parameters);
    const auto context = penalty_context(step);
    pass_over(step, penalty.signs(context), micro_batch);
    pass.finish();
    const auto gradient = parameters.gradient().clone();
    const auto added = penalty.add(context, pass.signed_sum(), [&](const GradientPass::GroupSigns& alone) {
      pass_over(step, alone, micro_batch);
      return pass.signed_sum();
    });
    const auto result = testing::flattened(parameters.views(parameters.gradient() - gradient));
    EXPECT_NEAR(added.norm.item<double>(), result.norm().item<double>(), 1e-9);
    return {result, added.value.item<double>()};
  }
};

/// (lambda/2) mean_j |g_j|^2 and its gradient, from plain operators.
std::pair<double, at::Tensor> penalty_by_autograd(const testing::SmallNetwork& network,
                                                  const testing::Examples& examples) {
  std::vector<at::Tensor> leaves, copies;
  for (const auto& p : network.parameters()) {
    auto sizes = p.sizes().vec();
    sizes.insert(sizes.begin(), kPenaltyExamples);
    leaves.push_back(p.detach().clone().requires_grad_());
    copies.push_back(leaves.back().unsqueeze(0).expand(sizes));
  }
  const auto losses = testing::losses_of(network.reference(copies, examples.images), examples.labels);
  auto value = torch::zeros({}, losses.options().requires_grad(false));
  for (std::int64_t j = 0; j < kPenaltyGroups; ++j) {
    const auto loss = losses.narrow(0, j * kPenaltyGroup, kPenaltyGroup).mean();
    for (const auto& g : torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/true, /*create_graph=*/true))
      value = value + g.square().sum() * (kLambda / 2 / kPenaltyGroups);
  }
  return {value.item<double>(), testing::flattened(torch::autograd::grad({value}, leaves))};
}

/// A step for each of the 2^G patterns of signs, by what the pass draws.
std::vector<std::int64_t> steps_of_all_patterns() {
  std::map<std::vector<double>, std::int64_t> steps;
  for (std::int64_t step = 0; steps.size() < 16; ++step) {
    const auto signs = torch::empty({kPenaltyGroups}, at::kDouble);
    fill_signs(signs, {kPenaltySeed, nth(Purpose::kSigns, 1), static_cast<std::uint32_t>(step)});
    const auto* s = signs.data_ptr<double>();
    steps.emplace(std::vector<double>(s, s + kPenaltyGroups), step);
  }
  std::vector<std::int64_t> result;
  for (const auto& [signs, step] : steps) result.push_back(step);
  return result;
}

class PenaltyOf : public ::testing::TestWithParam<std::string> {};

/// Errors of the first order in eps have the sign of the pattern, and cancel.
TEST_P(PenaltyOf, HasTheMeanOfSecondDerivativesOverAllSigns) {
  const auto network = testing::make_small_network(GetParam(), at::kDouble);
  Penalised penalised(*network);
  const auto [value, expected] = penalty_by_autograd(*network, penalised.examples);
  std::vector<double> errors;
  for (const double step : {2e-2, 1e-2, 1e-3}) {
    double mean_value = 0;
    auto mean = torch::zeros_like(expected);
    for (const std::int64_t pattern : steps_of_all_patterns()) {
      const auto [added, estimate] = penalised.penalty(penalty_options(step), pattern, 2 * kPenaltyGroup);
      mean += added / 16;
      mean_value += estimate / 16;
    }
    EXPECT_NEAR(mean_value, value, 1e-12 * value);
    errors.push_back((mean - expected).norm().item<double>() / expected.norm().item<double>());
  }
  EXPECT_LT(errors[0], 1e-2);
  EXPECT_NEAR(errors[0] / errors[1], 4, 0.2);
  EXPECT_LT(errors[2], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Networks, PenaltyOf, ::testing::Values("mlp", "convolution", "residual"));

class PenaltyTest : public ::testing::Test {
 protected:
  std::shared_ptr<testing::SmallNetwork> network_ = testing::make_small_network("residual", at::kDouble);
  Penalised penalised_{*network_};
};

/// Micro-batches that cut groups in two, of a network without batch statistics.
TEST_F(PenaltyTest, DoesNotDependOnTheMicroBatches) {
  const auto mlp = testing::make_small_network("mlp", at::kDouble);
  Penalised penalised(*mlp);
  const auto whole = penalised.penalty(penalty_options(1e-3), 2, kPenaltyExamples).first;
  for (const std::int64_t micro_batch : {3, 6})
    EXPECT_TRUE(penalised.penalty(penalty_options(1e-3), 2, micro_batch).first.allclose(whole, 1e-9, 1e-10));
}

TEST_F(PenaltyTest, LeavesWeightsAndRunningStatisticsAsTheyWere) {
  GhostPenalty penalty(penalty_options(0.1), *network_, penalised_.parameters);
  const auto context = penalty_context(0);
  penalised_.pass_over(0, penalty.signs(context), kPenaltyExamples);
  const auto weights = penalised_.parameters.values().clone();
  std::vector<at::Tensor> buffers;
  for (const auto& buffer : network_->buffers()) buffers.push_back(buffer.clone());
  const auto sum = penalised_.pass.signed_sum().clone();
  bool moved = false;
  const auto second_pass = [&](const GradientPass::GroupSigns& alone) {
    moved = !penalised_.parameters.values().equal(weights);
    penalised_.pass_over(0, alone, kPenaltyExamples);
    EXPECT_FALSE(network_->buffers()[0].equal(buffers[0]));
    return penalised_.pass.signed_sum();
  };
  const auto expect_restored = [&] {
    EXPECT_TRUE(penalised_.parameters.values().equal(weights));
    for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(network_->buffers()[i].equal(buffers[i]));
  };
  penalty.add(context, sum, second_pass);
  EXPECT_TRUE(moved);
  expect_restored();
  const auto throwing = [&](const GradientPass::GroupSigns& alone) -> at::Tensor {
    second_pass(alone);
    throw Error("stopped");
  };
  EXPECT_THROW(penalty.add(context, sum, throwing), Error);
  expect_restored();
}

TEST_F(PenaltyTest, IsKTimesAsStrongInEveryKthStep) {
  auto options = penalty_options(1e-3);
  const auto [every, value] = penalised_.penalty(options, 6, kPenaltyExamples);
  options.penalty_every = 3;
  const auto [third, same] = penalised_.penalty(options, 6, kPenaltyExamples);
  EXPECT_TRUE(third.allclose(3 * every, 1e-9, 1e-12));
  EXPECT_NEAR(value, same, 1e-12 * value);
  const GhostPenalty penalty(options, *network_, penalised_.parameters);
  EXPECT_EQ(penalty.signs(penalty_context(7)).size, 0);
  EXPECT_EQ(penalty.signs(penalty_context(9)).size, kPenaltyGroup);
}

/// A small batch loses nothing that a penalty would have to replace. A large one may be one group.
TEST_F(PenaltyTest, IsNotOfTheSmallBatch) {
  auto options = penalty_options(0.01);
  auto context = penalty_context(0);
  for (const std::int64_t batch : {kPenaltyGroup / 2, kPenaltyGroup}) {
    context.batch = batch;
    EXPECT_EQ(GhostPenalty(options, *network_, penalised_.parameters).signs(context).size, 0);
  }
  context.batch = options.group = 2 * kPenaltyGroup;
  EXPECT_EQ(GhostPenalty(options, *network_, penalised_.parameters).signs(context).size, 2 * kPenaltyGroup);
}

TEST_F(PenaltyTest, IsZeroWhereAllGradientsAre) {
  penalised_.logit_scale = 0;
  const auto [added, value] = penalised_.penalty(penalty_options(1e-3), 0, kPenaltyExamples);
  EXPECT_EQ(added.abs().max().item<double>(), 0);
  EXPECT_EQ(value, 0);
}

/// Gradient, diagonal and draw are those of a pass without signs of groups, bit for bit.
TEST_F(PenaltyTest, LeavesTheStatisticsOfTheNoiseAlone) {
  Needs needs;
  needs.squares = Squares::kExact;
  needs.extra = ExtraBackward::kSigned;
  std::vector<GradientStatistics> statistics;
  for (const std::int64_t group : {std::int64_t{0}, kPenaltyGroup}) {
    penalised_.pass_over(3, {group, false}, 2 * kPenaltyGroup, needs);
    auto of_pass = penalised_.pass.finish();
    for (auto* tensor : {&of_pass.gradient, &of_pass.diagonal, &of_pass.draw}) *tensor = tensor->clone();
    statistics.push_back(of_pass);
  }
  EXPECT_TRUE(statistics[0].gradient.equal(statistics[1].gradient));
  EXPECT_TRUE(statistics[0].diagonal.equal(statistics[1].diagonal));
  EXPECT_TRUE(statistics[0].draw.equal(statistics[1].draw));
}

/// 3-4-3 with dropout.
struct PenalisedDropout final : testing::SmallNetwork {
  Linear fc1{register_module("fc1", Linear(3, 4))}, fc2{register_module("fc2", Linear(4, 3))};
  Dropout drop{register_module("drop", Dropout(0.5, 2))};
  at::Tensor forward(const at::Tensor& x) override { return fc2(drop(torch::tanh(fc1(x)))); }
  at::Tensor reference(const std::vector<at::Tensor>&, const at::Tensor&) const override { return {}; }
  std::vector<std::int64_t> input() const override { return {3}; }
};

/// Other units in the second pass would make a difference that grows as 1 / eps.
TEST_F(PenaltyTest, DropsTheSameUnitsInBothPasses) {
  PenalisedDropout network;
  network.to(at::kDouble);
  initialize(network, 11);
  network.to(testing::device());
  Penalised penalised(network);
  const auto coarse = penalised.penalty(penalty_options(1e-3), 4, 6).first;
  const auto fine = penalised.penalty(penalty_options(1e-5), 4, 6).first;
  EXPECT_LT((coarse - fine).norm().item<double>(), 1e-2 * fine.norm().item<double>());
  EXPECT_FALSE(fine.allclose(penalised.penalty(penalty_options(1e-5), 5, 6).first));
}

TEST_F(PenaltyTest, RefusesWhatItCannotDo) {
  const auto refusal = [&](NoiseOptions options, std::int64_t batch = kPenaltyExamples) {
    return [options, batch] { check_penalty(options, batch); };
  };
  auto options = penalty_options(0.01);
  EXPECT_THAT(refusal(options, 18), ThrowsMessage<Error>(HasSubstr("a batch of 18 examples is not a multiple of 4")));
  EXPECT_THAT(refusal(options, 6), ThrowsMessage<Error>(HasSubstr("a batch of 6 examples is not a multiple of 4")));
  options.penalty_step = 0;
  EXPECT_THAT(refusal(options), ThrowsMessage<Error>(HasSubstr("noise.penalty_step = 0 must be above 0")));
  options = penalty_options(0.01);
  options.penalty_every = 0;
  EXPECT_THAT(refusal(options), ThrowsMessage<Error>(HasSubstr("noise.penalty_every = 0 must be at least 1")));
  options = penalty_options(0.01);
  options.penalty = -1;
  EXPECT_THAT(refusal(options), ThrowsMessage<Error>(HasSubstr("noise.penalty = -1 must be at least 0")));
  options.penalty = NAN;
  EXPECT_THAT(refusal(options), ThrowsMessage<Error>(HasSubstr("must be at least 0")));
  options = penalty_options(0.01);
  options.placement = Placement::kWeights;
  EXPECT_THAT(refusal(options), ThrowsMessage<Error>(HasSubstr("another noise.placement than \"weights\"")));
  options.penalty = 0;
  check_penalty(options, 18);  // there are no groups
}

TEST_F(PenaltyTest, RefusesDropoutThatDrawsAnewInEveryPass) {
  network_->register_module("theirs", torch::nn::Dropout(0.5));
  const auto make = [&](double lambda) {
    auto options = penalty_options(0.01);
    options.penalty = lambda;
    GhostPenalty(options, *network_, penalised_.parameters);
  };
  EXPECT_THAT([&] { make(0.1); }, ThrowsMessage<Error>(HasSubstr("layer 'theirs' is PyTorch's own dropout")));
  make(0);
}

}  // namespace
}  // namespace covnoise
