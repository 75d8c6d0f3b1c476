#include "covnoise/theory/quadratic.h"

#include "covnoise/core/error.h"
#include "covnoise/theory/matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace covnoise::theory {
namespace {

/// The i-th of 20 problems: dimension 2 to 50, condition 2 to 100.
Quadratic problem(int i) {
  const std::int64_t dimension = 2 + 48 * i / 19;
  const double condition = 2 * std::pow(50.0, ((7 * i) % 20) / 19.0);
  return make_quadratic(rotated_diagonal(parse_spectrum(fmt::format("log:{}:1", 1 / condition), dimension), 100 + i));
}

at::Tensor start(const Quadratic& q, std::uint64_t seed = 5) { return normals({q.dimension()}, seed, 0); }

double loss_of(const Quadratic& q, const at::Tensor& theta) { return q.losses(theta.unsqueeze(1)).item<double>(); }

std::vector<std::int64_t> every_step(std::int64_t last) {
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 0; k <= last; ++k) steps.push_back(k);
  return steps;
}

TEST(Quadratic, MeanLossFollowsTheMatrixRecursion) {
  const Quadratic q = problem(6);
  const at::Tensor theta = start(q), eye = at::eye(q.dimension(), at::kDouble);
  const StepSizes steps = StepSizes::theorem(q, 1 / q.lambda_max());
  for (const auto& name : noise_names()) {
    const at::Tensor C = noise_factor(name, q);
    const auto losses = exact_losses(q, C, steps, theta, 40);
    at::Tensor S = at::outer(theta, theta);
    for (std::int64_t k = 0; k <= 40; ++k) {
      const double expected = 0.5 * at::trace(at::matmul(q.matrix, S)).item<double>();
      EXPECT_NEAR(losses[static_cast<std::size_t>(k)], expected, 1e-12 * (1 + expected)) << name << " step " << k;
      const at::Tensor keep = eye - steps(k) * q.matrix;
      S = at::matmul(at::matmul(keep, S), keep) + steps(k) * steps(k) * at::matmul(C, C.t());
    }
  }
}

TEST(Quadratic, TheoremHoldsAtEveryStepOfTheRecursion) {
  for (int i = 0; i < 20; ++i) {
    const Quadratic q = problem(i);
    const at::Tensor theta = start(q) * (i % 3 == 0 ? 0.1 : 2);  // noise or start decides nu
    const StepSizes steps = StepSizes::theorem(q, (i % 2 == 0 ? 1.0 : 0.3) / q.lambda_max());
    for (const auto& name : noise_names()) {
      const at::Tensor C = noise_factor(name, q);
      const TheoremBound bound = theorem_bound(q, C, steps, loss_of(q, theta));
      const auto losses = exact_losses(q, C, steps, theta, 3000);
      for (std::int64_t k = 0; k <= 3000; ++k) {
        ASSERT_LE(losses[static_cast<std::size_t>(k)], bound(k) * (1 + 1e-12)) << i << " " << name << " step " << k;
      }
    }
  }
}

/// One of the three noises in turn for each of 20 random A, 4096 trajectories, at every step.
TEST(Quadratic, SimulatedLossesKeepTheBoundAndFollowTheRecursion) {
  const std::vector<std::string> names{"full", "diagonal", "isotropic"};
  for (int i = 0; i < 20; ++i) {
    const Quadratic q = problem(i);
    const at::Tensor theta = start(q), C = noise_factor(names[static_cast<std::size_t>(i) % 3], q);
    const StepSizes steps = StepSizes::theorem(q, 1 / q.lambda_max());
    const TheoremBound bound = theorem_bound(q, C, steps, loss_of(q, theta));
    const MeanLosses simulated = simulate_losses(q, C, steps, theta, {4096, 17, every_step(60), at::kDouble});
    const auto exact = exact_losses(q, C, steps, theta, 60);
    for (std::size_t k = 0; k <= 60; ++k) {
      // 5 standard errors: 1200 correlated comparisons, a chance below 1e-3 for all of them together.
      const double slack = 5 * simulated.standard_error[k] + 1e-12 * exact[k];
      EXPECT_NEAR(simulated.mean[k], exact[k], slack) << "problem " << i << " step " << k;
      EXPECT_LE(simulated.mean[k], bound(static_cast<std::int64_t>(k)) + slack) << "problem " << i << " step " << k;
    }
  }
}

TEST(Quadratic, ConstantStepsSettleAtTheStationaryLoss) {
  const Quadratic q = problem(4);
  for (const auto& name : noise_names()) {
    const at::Tensor C = noise_factor(name, q);
    const double alpha = 1.7 / q.lambda_max();
    const double settled = exact_losses(q, C, StepSizes::constant(alpha), start(q), 20000).back();
    EXPECT_NEAR(settled, stationary_loss(q, C, alpha), 1e-10);
  }
  EXPECT_TRUE(std::isinf(stationary_loss(q, noise_factor("full", q), 2 / q.lambda_max())));
}

TEST(Quadratic, OneStepFromTheMinimumRisesByTheCurvatureOfTheNoise) {
  const Quadratic q = problem(10);
  const double alpha = 0.5 / q.lambda_max();
  double rise[2];
  int i = 0;
  for (const std::string name : {"full", "diagonal"}) {
    const at::Tensor C = noise_factor(name, q), origin = at::zeros({q.dimension()}, at::kDouble);
    const MeanLosses after = simulate_losses(q, C, StepSizes::constant(alpha), origin, {100000, 3, {1}, at::kDouble});
    EXPECT_NEAR(after.mean[0], one_step_rise(q, C, alpha), 4 * after.standard_error[0]);
    rise[i++] = after.mean[0];
  }
  const double full = q.matrix.square().sum().item<double>(), diagonal = q.matrix.diag().square().sum().item<double>();
  EXPECT_NEAR(rise[0] / rise[1], full / diagonal, 0.01 * full / diagonal);
  EXPECT_GT(full / diagonal, 1.3);
}

TEST(Quadratic, NoisesHaveTheTraceOfTheMatrix) {
  const Quadratic q = problem(12);
  const double trace = at::trace(q.matrix).item<double>();
  for (const std::string name : {"isotropic", "full", "diagonal"}) {
    EXPECT_NEAR(noise_factor(name, q).square().sum().item<double>(), trace, 1e-10);
  }
  // (Tr A)^2 / d <= |diag A|^2 <= |A|^2: by the theorem's own measure isotropic noise is the best of the three.
  const double isotropic = noise_curvature(q, noise_factor("isotropic", q));
  EXPECT_NEAR(isotropic, trace * trace / static_cast<double>(q.dimension()), 1e-10);
  EXPECT_LT(isotropic, noise_curvature(q, noise_factor("diagonal", q)));
  EXPECT_LT(noise_curvature(q, noise_factor("diagonal", q)), noise_curvature(q, noise_factor("full", q)));
}

TEST(Quadratic, StepsAreGovernedByTheTraceNotByTheFrobeniusNorm) {
  const Quadratic q = make_quadratic(rotated_diagonal(parse_spectrum("log:0.01:1", 50), 1));
  const at::Tensor theta = start(q), full = noise_factor("full", q), diagonal = noise_factor("diagonal", q);
  const StepSizes steps = StepSizes::theorem(q, 1 / q.lambda_max());
  const auto k_full = steps_to_reach(exact_losses(q, full, steps, theta, 50000), {0.02})[0];
  const auto k_diagonal = steps_to_reach(exact_losses(q, diagonal, steps, theta, 50000), {0.02})[0];
  ASSERT_TRUE(k_full && k_diagonal);
  const double ratio = static_cast<double>(*k_full) / static_cast<double>(*k_diagonal);
  EXPECT_NEAR(ratio, 0.95, 0.02);
  EXPECT_NEAR(noise_curvature(q, full) / noise_curvature(q, diagonal), 2.3, 0.1);
}

TEST(Quadratic, LossOverStepsTendsToTheAsymptoticConstant) {
  const Quadratic q = problem(3);
  const at::Tensor C = noise_factor("diagonal", q);
  const auto losses = exact_losses(q, C, StepSizes::theorem(q, 1 / q.lambda_max()), start(q), 400000);
  EXPECT_NEAR(400000 * losses.back() / asymptotic_constant(q, C), 1, 1e-3);
}

TEST(Quadratic, StepsToReachCountsUntilTheLossStaysBelow) {
  const auto steps = steps_to_reach({5, 1, 3, 2, 1, 0.5}, {4, 1, 0.1, 9});
  EXPECT_EQ(steps[0], 1);
  EXPECT_EQ(steps[1], 4);  // the dip at 1 does not last
  EXPECT_FALSE(steps[2]);
  EXPECT_EQ(steps[3], 0);
}

TEST(Quadratic, SingleAndDoublePrecisionAgree) {
  const Quadratic q = problem(5);
  const at::Tensor C = noise_factor("full", q);
  const StepSizes steps = StepSizes::constant(0.3 / q.lambda_max());
  const auto wide = simulate_losses(q, C, steps, start(q), {512, 1, {50}, at::kDouble});
  const auto narrow = simulate_losses(q, C, steps, start(q), {512, 1, {50}, at::kFloat});
  EXPECT_NEAR(narrow.mean[0] / wide.mean[0], 1, 1e-4);
}

TEST(Quadratic, RefusesWhatTheTheoremExcludes) {
  EXPECT_THROW(make_quadratic(at::ones({2, 3}, at::kDouble)), Error);
  EXPECT_THROW(make_quadratic(at::tensor({1.0, 2.0, 0.0, 1.0}, at::kDouble).view({2, 2})), Error);
  EXPECT_THROW(make_quadratic(-at::eye(2, at::kDouble)), Error);
  EXPECT_THROW(noise_factor("diagnal", problem(0)), Error);
  const Quadratic q = problem(0);
  EXPECT_THROW(StepSizes::theorem(q, 1.1 / q.lambda_max()), c10::Error);
  const StepSizes steps = StepSizes::theorem(q, 0.5 / q.lambda_max());
  EXPECT_NEAR(steps(0), 0.5 / q.lambda_max(), 1e-12);
}

}  // namespace
}  // namespace covnoise::theory
