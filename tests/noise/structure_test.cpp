#include "covnoise/noise/structure.h"

#include "covnoise/core/error.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/ops/random.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace covnoise {
namespace {

constexpr std::int64_t kStructureExamples = 4;

/// A tiny network with its statistics for one structure, and the dense covariance that the structure's formula states.
class StructureTest : public ::testing::TestWithParam<std::string> {
 protected:
  StructureTest()
      : parameters_(network_()),
        pass_(*network_ptr_, [this](const at::Tensor& x) { return network_ptr_->forward(x); }, parameters_, {2, {}}),
        examples_(testing::make_examples(*network_ptr_, kStructureExamples, at::kDouble)),
        gradients_(testing::contributions(*network_ptr_, examples_)) {}

  testing::SmallNetwork& network_() {
    network_ptr_ = testing::make_small_network("mlp", at::kDouble);
    return *network_ptr_;
  }
  GradientStatistics collect(const Needs& needs, std::uint32_t step) {
    return collect_shard(needs, step, 0, examples_.labels.size(0));
  }
  GradientStatistics collect_shard(const Needs& needs, std::uint32_t step, std::int64_t first, std::int64_t count) {
    pass_.begin({needs, 1, step, first});
    pass_.add(examples_.images.narrow(0, first, count), examples_.labels.narrow(0, first, count));
    return pass_.finish();
  }
  at::Tensor row(const at::Tensor& buffer) const { return testing::flattened(parameters_.views(buffer)); }
  at::Tensor fisher() const { return gradients_.t().matmul(gradients_) / kStructureExamples; }
  at::Tensor kronecker_product() const;
  at::Tensor stated_covariance(const std::string& structure) const;

  std::shared_ptr<testing::SmallNetwork> network_ptr_;
  FlatParameters parameters_;
  GradientPass pass_;
  testing::Examples examples_;
  at::Tensor gradients_;  // [M, d]
};

/// The block of one linear layer, outputs x (inputs + 1), from activations and output derivatives: cov(vec [W, b]) with
/// the weight's rows first, then the bias.
at::Tensor layer_block(const at::Tensor& a, const at::Tensor& dz) {
  const auto with_one = torch::cat({a, torch::ones({a.size(0), 1}, torch::kFloat64)}, 1);
  const auto A = with_one.t().matmul(with_one) / kStructureExamples, G = dz.t().matmul(dz) / kStructureExamples;
  const auto dense = torch::kron(G, A);  // index o * (K + 1) + k
  const std::int64_t outputs = dz.size(1), inputs = a.size(1);
  std::vector<std::int64_t> order;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t k = 0; k < inputs; ++k) order.push_back(o * (inputs + 1) + k);
  }
  for (std::int64_t o = 0; o < outputs; ++o) order.push_back(o * (inputs + 1) + inputs);
  const auto index = torch::tensor(order, torch::kInt64);
  return dense.index_select(0, index).index_select(1, index);
}

at::Tensor StructureTest::kronecker_product() const {
  const auto& p = network_ptr_->parameters();
  const auto hidden = torch::tanh(examples_.images.matmul(p[0].t()) + p[1]).detach();
  // Bias gradients are the output derivatives: columns 12..15 and 28..30 of the contributions.
  return torch::block_diag({layer_block(examples_.images.cpu(), gradients_.narrow(1, 12, 4)),
                            layer_block(hidden.cpu(), gradients_.narrow(1, 28, 3))});
}

at::Tensor StructureTest::stated_covariance(const std::string& structure) const {
  const auto diagonal = fisher().diagonal();
  if (structure == "none") return torch::zeros_like(fisher());
  if (structure == "diag-fisher") return torch::diag(diagonal);
  if (structure == "full-fisher" || structure == "true-fisher") return fisher();
  if (structure == "fisher-trace") return torch::eye(diagonal.size(0), torch::kFloat64) * diagonal.mean();
  if (structure == "kfac") return kronecker_product();
  if (structure == "multiplicative") return torch::diag(gradients_.mean(0).pow(2) * 0.25);
  if (structure == "isotropic") return torch::eye(diagonal.size(0), torch::kFloat64) * 0.25;
  ADD_FAILURE() << structure << ": a new structure must state its covariance here";
  return {};
}

NoiseOptions noise(const std::string& structure) {
  NoiseOptions options;
  options.structure = structure;
  options.sigma = 0.5;
  return options;
}

/// Means and covariances of n draws within 6 standard errors: |cov_ij - C_ij| <= 6 sqrt((C_ii C_jj + C_ij^2) / n).
void expect_covariance(const at::Tensor& draws, const at::Tensor& stated) {
  const double n = static_cast<double>(draws.size(0));
  const auto variance = stated.diagonal();
  const auto floor = 1e-12 + 1e-12 * variance.max();
  EXPECT_TRUE((draws.mean(0).abs() <= 6 * (variance / n).sqrt() + floor).all().item<bool>());
  const auto measured = draws.t().matmul(draws) / n;
  const auto error = ((variance.unsqueeze(0) * variance.unsqueeze(1) + stated.pow(2)) / n).sqrt();
  EXPECT_TRUE(((measured - stated).abs() <= 6 * error + floor).all().item<bool>())
      << ((measured - stated).abs() / (error + floor)).max();
}

TEST_P(StructureTest, SamplesHaveMeanZeroAndTheStatedCovariance) {
  const auto structure = make_structure(noise(GetParam()));
  if (structure->needs().extra != ExtraBackward::kNone) GTEST_SKIP() << "enumerated below";
  auto statistics = collect(structure->needs(), 0);
  std::vector<at::Tensor> draws;
  const bool by_passes = structure->needs().draw();
  for (std::uint32_t k = 0; k < (by_passes ? 5000u : 20000u); ++k) {
    if (by_passes) statistics = collect(structure->needs(), k);
    draws.push_back(row(structure->sample(statistics, {7, Purpose::kNoise, k})));
  }
  expect_covariance(torch::stack(draws), stated_covariance(GetParam()));
}

TEST_P(StructureTest, SamplesAreAPureFunctionOfStatisticsAndStream) {
  const auto structure = make_structure(noise(GetParam()));
  const auto statistics = collect(structure->needs(), 0);
  const auto gradient = statistics.gradient.clone();
  const auto first = structure->sample(statistics, {7, Purpose::kNoise, 3}).clone();
  EXPECT_TRUE(row(first).equal(row(structure->sample(statistics, {7, Purpose::kNoise, 3}))));
  EXPECT_TRUE(statistics.gradient.equal(gradient));
}

/// A diagonal C that is known without a draw is given as the variance; nothing else is.
TEST_P(StructureTest, VarianceIsTheStatedDiagonal) {
  const auto structure = make_structure(noise(GetParam()));
  const auto stated = stated_covariance(GetParam());
  const bool diagonal = !structure->needs().draw() && stated.equal(torch::diag(stated.diagonal()));
  auto variance = structure->variance(collect(structure->needs(), 0));
  ASSERT_EQ(variance.defined(), diagonal);
  if (!diagonal) return;
  EXPECT_LT((row(variance) - stated.diagonal()).abs().max().item<double>(), 1e-12);
  const double with_gaps = variance.sum().item<double>();
  EXPECT_NEAR(with_gaps, row(variance).sum().item<double>(), 1e-12);
}

/// Samples of three and one examples, each times the root of its share, have the covariance of the whole.
TEST_P(StructureTest, ShardsAddUpToTheWhole) {
  const auto structure = make_structure(noise(GetParam()));
  const Needs needs = structure->needs();
  if (!structure->adds_up_over_shards()) {
    EXPECT_TRUE(needs == Needs{} || structure->needs_only_trace());  // every rank can draw it from what it knows
    return;
  }
  if (needs.kronecker) GTEST_SKIP() << "the mean of the shards' products: tests/train/ranks/noise_shards_test.cpp";
  const auto whole = collect(needs, 0);
  const bool draw = needs.draw();
  const auto of = [&](const GradientStatistics& statistics) {
    return row(draw ? structure->sample(statistics, {}) : structure->variance(statistics));
  };
  const auto expected = of(whole);
  const auto sum = (draw ? std::sqrt(0.75) : 0.75) * of(collect_shard(needs, 0, 0, 3)) +
                   (draw ? std::sqrt(0.25) : 0.25) * of(collect_shard(needs, 0, 3, 1));
  EXPECT_LT((sum - expected).abs().max().item<double>(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Table, StructureTest, ::testing::ValuesIn(structure_names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

class DrawnStructureTest : public StructureTest {};

/// Every sign pattern once: the mean of n n^T over all 2^M patterns is the covariance, without sampling error.
TEST_F(DrawnStructureTest, FullFisherHasExactlyFOverAllSignPatterns) {
  const auto structure = make_structure(noise("full-fisher"));
  std::map<std::vector<double>, at::Tensor> seen;
  for (std::uint32_t step = 0; seen.size() < (1u << kStructureExamples); ++step) {
    auto signs = torch::empty({kStructureExamples}, torch::kFloat64);
    fill_signs(signs, {1, Purpose::kSigns, step});
    const std::vector<double> key(signs.data_ptr<double>(), signs.data_ptr<double>() + kStructureExamples);
    if (seen.count(key) == 0) seen[key] = row(structure->sample(collect(structure->needs(), step), {}));
  }
  auto mean = torch::zeros({31}, torch::kFloat64), second = torch::zeros({31, 31}, torch::kFloat64);
  for (const auto& [key, draw] : seen) {
    mean += draw / 16;
    second += torch::outer(draw, draw) / 16;
  }
  EXPECT_LT(mean.abs().max().item<double>(), 1e-12);
  EXPECT_LT((second - fisher()).abs().max().item<double>(), 1e-12);
}

/// Every combination of labels once, weighted by its probability.
TEST_F(DrawnStructureTest, TrueFisherHasExactlyItsCovarianceOverAllLabels) {
  examples_ = {examples_.images.narrow(0, 0, 3), examples_.labels.narrow(0, 0, 3)};
  const auto structure = make_structure(noise("true-fisher"));
  const auto p = torch::softmax(network_ptr_->forward(examples_.images).detach(), 1).cpu();
  std::map<std::vector<std::int64_t>, at::Tensor> seen;
  for (std::uint32_t step = 0; seen.size() < 27; ++step) {
    auto u = torch::empty({3}, torch::kFloat64);
    fill_uniform(u, {1, Purpose::kLabels, step});
    const auto labels = p.cumsum(1).lt(u.unsqueeze(1)).sum(1).clamp_max(2);
    const std::vector<std::int64_t> key(labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + 3);
    if (seen.count(key) == 0) seen[key] = row(structure->sample(collect(structure->needs(), step), {}));
  }
  auto mean = torch::zeros({31}, torch::kFloat64), second = torch::zeros({31, 31}, torch::kFloat64);
  for (const auto& [key, draw] : seen) {
    double weight = 1;
    for (std::int64_t i = 0; i < 3; ++i) weight *= p[i][key[i]].item<double>();
    mean += weight * draw;
    second += weight * torch::outer(draw, draw);
  }
  auto stated = torch::zeros({31, 31}, torch::kFloat64);
  for (std::int64_t y = 0; y < 3; ++y) {  // (1/M) sum_i sum_y p(y|x_i) g g^T
    const auto g = testing::contributions(*network_ptr_,
                                          {examples_.images, testing::on_device(torch::full({3}, y, torch::kInt64))});
    stated += (g * p.select(1, y).unsqueeze(1)).t().matmul(g) / 3;
  }
  EXPECT_LT(mean.abs().max().item<double>(), 1e-12);
  EXPECT_LT((second - stated).abs().max().item<double>(), 1e-12);
}

TEST_F(DrawnStructureTest, SignsEstimatorHasExactlyTheDiagonal) {
  NoiseOptions signs = noise("diag-fisher");
  signs.estimator = "signs";
  const auto structure = make_structure(signs);
  std::vector<at::Tensor> draws;
  for (std::uint32_t step = 0; step < 4000; ++step) {
    draws.push_back(row(structure->sample(collect(structure->needs(), step), {2, Purpose::kNoise, step})));
  }
  expect_covariance(torch::stack(draws), torch::diag(fisher().diagonal()));
}

TEST(MakeStructure, UnknownNamesListTheKnownOnes) {
  EXPECT_THAT([] { make_structure(noise("diagonal")); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("diag-fisher, full-fisher")));
  NoiseOptions options = noise("diag-fisher");
  options.estimator = "magic";
  EXPECT_THAT([&] { make_structure(options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("exact, ghost, spatial")));
  options.estimator = "ghost";
  options.labels = Labels::kModel;
  EXPECT_THROW(make_structure(options), Error);
  options = noise("full-fisher");
  options.labels = Labels::kModel;
  EXPECT_THAT([&] { make_structure(options); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("true-fisher")));
}

TEST(MakeStructure, DefaultEstimatorFollowsTheNetwork) {
  const NoiseOptions options = noise("diag-fisher");
  EXPECT_EQ(make_structure(options, /*batch_statistics=*/false)->needs().squares, Squares::kExact);
  EXPECT_EQ(make_structure(options, /*batch_statistics=*/true)->needs().squares, Squares::kGhost);
}

}  // namespace
}  // namespace covnoise
