#include "covnoise/theory/regression.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"

#include <gtest/gtest.h>

namespace covnoise::theory {
namespace {

RegressionOptions small_options() {
  RegressionOptions options;
  options.examples = 7;
  options.small_batch = 3;
  options.points = 4000;
  return options;
}

at::Tensor start_of(const RegressionOptions& options) {
  return at::tensor({options.start[0], options.start[1]}, at::kDouble);
}

TEST(Regression, GradientIsTheSlopeOfTheLoss) {
  const Regression problem = study_regression(small_options()).problem;
  const at::Tensor theta = at::tensor({0.7, -0.2}, at::kDouble), gradient = problem.example_gradients(theta).mean(0);
  for (std::int64_t i = 0; i < 2; ++i) {
    at::Tensor h = at::zeros({2}, at::kDouble);
    h[i] = 1e-5;
    const double slope = (problem.loss(theta + h) - problem.loss(theta - h)) / 2e-5;
    EXPECT_NEAR(gradient[i].item<double>(), slope, 1e-8);
  }
  EXPECT_LT(problem.example_gradients(problem.minimum()).mean(0).abs().max().item<double>(), 1e-12);
}

/// All 35 mini-batches of 3 out of 7, one by one.
TEST(Regression, SgdCovarianceIsThatOfAllMiniBatches) {
  const RegressionOptions options = small_options();
  const RegressionStudy study = study_regression(options);
  const at::Tensor g = study.problem.example_gradients(start_of(options));
  std::vector<at::Tensor> steps;
  for (int i = 0; i < 7; ++i) {
    for (int j = i + 1; j < 7; ++j) {
      for (int k = j + 1; k < 7; ++k) steps.push_back(start_of(options) - options.alpha * (g[i] + g[j] + g[k]) / 3);
    }
  }
  const at::Tensor all = at::stack(steps), centred = all - all.mean(0);
  const at::Tensor covariance = at::matmul(centred.t(), centred) / 35;
  EXPECT_LT((study.clouds[0].covariance - covariance).abs().max().item<double>(), 1e-14);
  EXPECT_LT((study.clouds[0].mean - all.mean(0)).abs().max().item<double>(), 1e-14);
}

TEST(Regression, FisherNoiseHasTheScaleOfTheMissingBatchNoise) {
  const RegressionOptions options = small_options();
  const RegressionStudy study = study_regression(options);
  const at::Tensor g = study.problem.example_gradients(start_of(options));
  at::Tensor fisher = at::zeros({2, 2}, at::kDouble);
  for (int i = 0; i < 7; ++i) fisher += at::outer(g[i], g[i]) / 7;
  const double s2 = (7.0 - 3.0) / (7.0 * 3.0), scale = options.alpha * options.alpha * s2;
  EXPECT_LT((study.clouds[2].covariance - scale * fisher).abs().max().item<double>(), 1e-14);
  EXPECT_LT((study.clouds[3].covariance - scale * fisher.diag().diag()).abs().max().item<double>(), 1e-14);
}

TEST(Regression, CloudsHaveTheirCovarianceAndMeanLoss) {
  const RegressionStudy study = study_regression(small_options());
  for (const auto& cloud : study.clouds) {
    const at::Tensor centred = cloud.points - cloud.mean;
    const at::Tensor sample = at::matmul(centred.t(), centred) / 4000;
    // A variance over 4000 draws is known to 2.2 %; four times that.
    EXPECT_LT(((sample - cloud.covariance).norm() / cloud.covariance.norm()).item<double>(), 0.09) << cloud.name;
    double sum = 0;
    for (std::int64_t i = 0; i < 4000; ++i) sum += study.problem.loss(cloud.points[i]);
    EXPECT_NEAR(sum / 4000 / mean_loss(study, cloud), 1, 0.05) << cloud.name;
  }
}

TEST(Regression, RefusesBatchesThatDoNotFit) {
  RegressionOptions options;
  options.small_batch = 2000;
  EXPECT_THROW(study_regression(options), Error);
}

}  // namespace
}  // namespace covnoise::theory
