// The point of it all: large-batch gradient plus noise has the variance of the small-batch gradient.
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "support/small_networks.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

constexpr std::int64_t kSmall = testing::kGhost, kLarge = 4 * kSmall, kPopulation = 64;

/// Draws batches with replacement from a population and measures the variance of each coordinate of the gradient.
class WholeTest : public ::testing::TestWithParam<std::string> {
 protected:
  WholeTest()
      : network_(testing::make_small_network(GetParam(), at::kDouble)),
        parameters_(*network_),
        pass_(*network_, [this](const at::Tensor& x) { return network_->forward(x); }, parameters_, {kSmall, {}}),
        population_(testing::make_examples(*network_, kPopulation, at::kDouble)) {
    torch::manual_seed(8);
  }

  GradientStatistics gradient(std::int64_t size, const Needs& needs) {
    const auto indices = testing::on_device(torch::randint(0, kPopulation, {size}, torch::kInt64));
    pass_.begin({needs});
    pass_.add(population_.images.index_select(0, indices), population_.labels.index_select(0, indices));
    return pass_.finish();
  }

  /// Gradient descent to a stationary point, where F is the covariance: `exact` squares are not centred.
  void settle() {
    for (int i = 0; i < 3000; ++i) {
      pass_.begin({});
      pass_.add(population_.images, population_.labels);
      parameters_.values().sub_(pass_.finish().gradient, 0.5);
    }
  }

  std::shared_ptr<testing::SmallNetwork> network_;
  FlatParameters parameters_;
  GradientPass pass_;
  testing::Examples population_;
};

/// Variance of each column and the standard error of that variance, from the fourth moment.
std::pair<at::Tensor, at::Tensor> variance(const std::vector<at::Tensor>& rows) {
  const auto x = torch::stack(rows);
  const auto squared = (x - x.mean(0)).pow(2);
  return {squared.mean(0), squared.std(0) / std::sqrt(static_cast<double>(rows.size()))};
}

TEST_P(WholeTest, LargeBatchPlusNoiseHasTheSmallBatchsVariance) {
  constexpr int kDraws = 4000;
  if (!network_->batch_statistics()) settle();
  NoiseOptions options;
  options.structure = "diag-fisher";
  options.small_batch = kSmall;
  Injection injection(options, network_->batch_statistics());
  std::vector<at::Tensor> small, noisy, plain;
  for (int k = 0; k < kDraws; ++k) {
    small.push_back(testing::flattened(parameters_.views(gradient(kSmall, {}).gradient)));
    StepContext step;
    step.step = k;
    step.batch = kLarge;
    const auto statistics = gradient(kLarge, injection.needs(step));
    const auto noise = injection.draw(statistics, step).tensor();
    plain.push_back(testing::flattened(parameters_.views(statistics.gradient)));
    noisy.push_back(testing::flattened(parameters_.views(statistics.gradient + noise)));
  }
  const auto [expected, expected_error] = variance(small);
  const auto [actual, actual_error] = variance(noisy);
  const auto error = (expected_error.pow(2) + actual_error.pow(2)).sqrt();
  EXPECT_TRUE(((actual - expected).abs() <= 5 * error + 1e-12).all().item<bool>())
      << "largest deviation in standard errors: " << ((actual - expected).abs() / (error + 1e-12)).max().item<double>();
  EXPECT_NEAR((actual.sum() / expected.sum()).item<double>(), 1, 0.05);
  EXPECT_LT((variance(plain).first.sum() / expected.sum()).item<double>(), 0.35);  // without noise a quarter
}

INSTANTIATE_TEST_SUITE_P(Networks, WholeTest, ::testing::Values("mlp", "residual"));

}  // namespace
}  // namespace covnoise
