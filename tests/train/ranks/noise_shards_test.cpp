// Noise that ranks draw from their shares of a batch adds up to noise of the whole batch's covariance.
#include "covnoise/core/threads.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "support/small_networks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

constexpr std::int64_t kWhole = 12, kSmallBatch = 2;
constexpr double kScaleSquared = 1.0 / kSmallBatch - 1.0 / kWhole;
using Sizes = std::vector<std::int64_t>;

NoiseOptions noise_of(const std::string& structure, const std::string& estimator = "exact") {
  NoiseOptions options;
  options.structure = structure;
  options.estimator = estimator;
  options.small_batch = kSmallBatch;
  options.stop_after = 1;
  options.refresh = 1;
  return options;
}

/// One share of the batch: what its examples gave, and its noise.
struct Part {
  StepContext context;
  Injection injection;
  GradientStatistics statistics;

  at::Tensor draw(std::int64_t step) {
    context.step = step;
    return testing::flattened(statistics.parameters->views(injection.draw(statistics, context).tensor()));
  }
};

class Parts : public ::testing::Test {
 protected:
  Parts()
      : network_(testing::make_small_network("mlp", at::kDouble)),
        parameters_(*network_),
        pass_(*network_, [this](const at::Tensor& x) { return network_->forward(x); }, parameters_, {kSmallBatch, {}}),
        examples_(testing::make_examples(*network_, kWhole, at::kDouble)) {
    set_threads(1);  // thousands of tiny operations
  }
  ~Parts() override { set_threads(0); }

  /// The batch in shares of these sizes, at that step.
  std::vector<Part> parts(const NoiseOptions& options, const Sizes& sizes, std::int64_t step = 0) {
    std::vector<Part> result;
    std::int64_t first = 0;
    for (const std::int64_t count : sizes) {
      Part part{{}, Injection(options), {}};
      part.context.seed = 3;
      part.context.step = step;
      part.context.batch = kWhole;
      part.context.shard = static_cast<std::uint32_t>(result.size());
      part.context.share = static_cast<double>(count) / kWhole;
      pass_.begin({part.injection.needs(part.context), 3, static_cast<std::uint32_t>(step), first});
      pass_.add(examples_.images.narrow(0, first, count), examples_.labels.narrow(0, first, count));
      part.statistics = pass_.finish();
      for (auto* buffer : {&part.statistics.gradient, &part.statistics.diagonal, &part.statistics.draw}) {
        if (buffer->defined()) *buffer = buffer->clone();
      }
      first += count;
      result.push_back(std::move(part));
    }
    return result;
  }

  static at::Tensor sum_of_draws(std::vector<Part>& parts, std::int64_t step) {
    auto sum = parts[0].draw(step);
    for (std::size_t i = 1; i < parts.size(); ++i) sum += parts[i].draw(step);
    return sum;
  }

  /// The covariance of `count` summed draws, [d, d]; the mean is known to be zero.
  static at::Tensor covariance(std::vector<Part>& parts, std::int64_t count) {
    std::vector<at::Tensor> rows;
    for (std::int64_t step = 0; step < count; ++step) rows.push_back(sum_of_draws(parts, step));
    const auto draws = torch::stack(rows);
    return draws.t().matmul(draws) / count;
  }

  /// Every element within 5.5 standard deviations of an estimate from `count` Gaussian draws.
  static void expect_covariance(const at::Tensor& measured, const at::Tensor& expected, std::int64_t count) {
    const auto variance = expected.diagonal();
    const auto deviation = ((torch::outer(variance, variance) + expected.square()) / count).sqrt();
    EXPECT_LT(((measured - expected).abs() / (deviation + 1e-12)).max().item<double>(), 5.5);
  }

  std::shared_ptr<testing::SmallNetwork> network_;
  FlatParameters parameters_;
  GradientPass pass_;
  testing::Examples examples_;
};

// An example's sign, or label, is a function of its place in the large batch, so the very draw is the same.
TEST_F(Parts, OfDrawsOfExamplesAddUpToTheWholeDraw) {
  for (const auto& options : {noise_of("full-fisher"), noise_of("true-fisher"), noise_of("diag-fisher", "signs")}) {
    for (std::int64_t step = 0; step < 8; ++step) {
      auto whole = parts(options, {kWhole}, step);
      const auto expected = whole[0].draw(step);
      for (const Sizes& sizes : {Sizes{6, 6}, Sizes{3, 3, 3, 3}, Sizes{6, 4, 2}}) {
        auto shares = parts(options, sizes, step);
        EXPECT_TRUE(sum_of_draws(shares, step).allclose(expected, 1e-12, 1e-14)) << options.structure;
      }
    }
  }
}

TEST_F(Parts, OfDiagonalNoiseHaveTheWholeVarianceAndAreIndependent) {
  constexpr std::int64_t kDraws = 8000;
  for (const Sizes& sizes : {Sizes{6, 6}, Sizes{6, 4, 2}}) {
    const auto whole = parts(noise_of("diag-fisher"), {kWhole});
    const auto expected = kScaleSquared * testing::flattened(parameters_.views(whole[0].statistics.diagonal));
    auto shares = parts(noise_of("diag-fisher"), sizes);
    expect_covariance(covariance(shares, kDraws), torch::diag(expected), kDraws);
  }
}

/// A (x) G of a linear layer of so many inputs and outputs, whose parameters begin at that column of the contributions
/// [M, d], in their order: the weight's rows, then the bias.
at::Tensor kronecker_covariance(const at::Tensor& contributions, std::int64_t first, std::int64_t inputs,
                                std::int64_t outputs) {
  const std::int64_t examples = contributions.size(0);
  const auto dz = contributions.narrow(1, first + outputs * inputs, outputs);
  const auto weight = contributions.narrow(1, first, outputs * inputs).reshape({examples, outputs, inputs});
  const auto a = (weight * dz.unsqueeze(2)).sum(1) / dz.square().sum(1, true);
  const auto with_one = torch::cat({a, torch::ones({examples, 1}, torch::kFloat64)}, 1);
  std::vector<std::int64_t> order;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t k = 0; k < inputs; ++k) order.push_back(o * (inputs + 1) + k);
  }
  for (std::int64_t o = 0; o < outputs; ++o) order.push_back(o * (inputs + 1) + inputs);
  const auto index = torch::tensor(order, torch::kInt64);
  const auto product = torch::kron(dz.t().matmul(dz), with_one.t().matmul(with_one)) / (examples * examples);
  return product.index_select(0, index).index_select(1, index);
}

TEST_F(Parts, OfKroneckerNoiseHaveTheMeanOfTheirProducts) {
  constexpr std::int64_t kDraws = 4000;
  const Sizes sizes{6, 4, 2};
  const auto contributions = testing::contributions(*network_, examples_).cpu();
  at::Tensor expected;
  std::int64_t first = 0;
  for (const std::int64_t count : sizes) {
    const auto rows = contributions.narrow(0, first, count);
    const auto product = torch::block_diag({kronecker_covariance(rows, 0, 3, 4), kronecker_covariance(rows, 16, 4, 3)});
    const auto part = kScaleSquared * static_cast<double>(count) / kWhole * product;
    expected = expected.defined() ? expected + part : part;
    first += count;
  }
  std::vector<at::Tensor> draws;
  for (std::int64_t step = 0; step < kDraws; ++step) {
    auto shares = parts(noise_of("kfac"), sizes, step);
    draws.push_back(sum_of_draws(shares, step));
  }
  const auto all = torch::stack(draws);
  expect_covariance(all.t().matmul(all) / kDraws, expected, kDraws);
}

// Over all 2^M signs, which a few hundred steps would only sample, the covariance is F by the formula; that the very
// draws agree is shown above. Here: it is the whole's F, and not a share's, that the sum has.
TEST_F(Parts, OfFullFisherNoiseHaveTheWholeFisherMatrix) {
  const auto gradients = testing::contributions(*network_, examples_);  // [M, d]
  at::Tensor covariance = torch::zeros({gradients.size(1), gradients.size(1)}, torch::kFloat64);
  constexpr std::int64_t kSigns = std::int64_t{1} << kWhole;
  for (std::int64_t bits = 0; bits < kSigns; ++bits) {
    auto signs = torch::empty({kWhole}, torch::kFloat64);
    for (std::int64_t i = 0; i < kWhole; ++i) signs[i] = (bits >> i) & 1 ? 1.0 : -1.0;
    at::Tensor sum = torch::zeros({gradients.size(1)}, torch::kFloat64);
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 8}, {8, 4}}) {
      const auto draw = signs.narrow(0, first, count).matmul(gradients.narrow(0, first, count)) / std::sqrt(count);
      sum += std::sqrt(static_cast<double>(count) / kWhole) * draw;
    }
    covariance += torch::outer(sum, sum) / kSigns;
  }
  const auto fisher = gradients.t().matmul(gradients) / kWhole;
  EXPECT_TRUE(covariance.allclose(fisher, 1e-10, 1e-12));
}

}  // namespace
}  // namespace covnoise
