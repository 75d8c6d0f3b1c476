#include "covnoise/analysis/frobenius.h"
#include "covnoise/analysis/internal/study_json.h"

#include "support/small_networks.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

class Frobenius : public ::testing::TestWithParam<std::string> {};

/// Against F itself, and against the sums over pairs written out.
TEST_P(Frobenius, EqualsTheDenseMatrix) {
  const auto network = testing::make_small_network(GetParam(), at::kDouble);
  const auto examples = testing::make_examples(*network, 12, at::kDouble);
  const auto g = testing::contributions(*network, examples);  // [M, d]
  const auto norms = squared_frobenius_norms(
      *network, [&](const at::Tensor& x) { return network->forward(x); }, examples.images, examples.labels);
  const auto fisher = g.t().mm(g) / 12;
  double pairs_full = 0, pairs_diagonal = 0;
  for (std::int64_t i = 0; i < 12; ++i) {
    for (std::int64_t j = 0; j < 12; ++j) {
      if (i == j) continue;
      pairs_full += std::pow(g[i].dot(g[j]).item<double>(), 2) / (12 * 11);
      pairs_diagonal += g[i].pow(2).dot(g[j].pow(2)).item<double>() / (12 * 11);
    }
  }
  const double full = fisher.pow(2).sum().item<double>(), diagonal = fisher.diagonal().pow(2).sum().item<double>();
  EXPECT_NEAR(norms.full, full, 1e-8 * full);
  EXPECT_NEAR(norms.diagonal, diagonal, 1e-8 * diagonal);
  EXPECT_NEAR(norms.full_unbiased, pairs_full, 1e-8 * full);
  EXPECT_NEAR(norms.diagonal_unbiased, pairs_diagonal, 1e-8 * diagonal);
}

INSTANTIATE_TEST_SUITE_P(Networks, Frobenius, ::testing::Values("mlp", "convolution", "residual"),
                         [](const auto& info) { return info.param; });

/// Means of the unbiased squares over many batches meet the squares of the population; the plain ones lie above.
TEST(FrobeniusNorms, TheOnesOverPairsAreUnbiased) {
  const auto network = testing::make_small_network("mlp", at::kDouble);
  const auto population = testing::make_examples(*network, 40, at::kDouble);
  const auto g = testing::contributions(*network, population);
  const double truth = (g.t().mm(g) / 40).pow(2).sum().item<double>();
  auto generator = at::detail::createCPUGenerator(3);
  std::vector<double> plain, unbiased;
  for (int i = 0; i < 400; ++i) {
    const auto chosen = testing::on_device(torch::randint(0, 40, {6}, generator, torch::dtype(torch::kInt64)));
    const auto norms = squared_frobenius_norms(
        *network, [&](const at::Tensor& x) { return network->forward(x); }, population.images.index_select(0, chosen),
        population.labels.index_select(0, chosen));
    plain.push_back(norms.full);
    unbiased.push_back(norms.full_unbiased);
  }
  const auto mean = mean_of(unbiased);
  EXPECT_NEAR(mean.value, truth, 4 * mean.error);
  EXPECT_GT(mean_of(plain).value, truth + 4 * mean_of(plain).error);
}

}  // namespace
}  // namespace covnoise
