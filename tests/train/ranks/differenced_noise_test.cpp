#include "train/ranks/differenced_noise.h"

#include "covnoise/ops/random.h"
#include "covnoise/ops/sgd_update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

constexpr std::int64_t kSize = 32, kNoisySteps = 40, kSteps = 150;

at::Tensor normals_of(Purpose purpose, std::int64_t step) {
  auto values = at::empty({kSize}, at::kDouble);
  fill_normal(values, {7, purpose, static_cast<std::uint32_t>(step)});
  return values;
}

/// The parameters after training with noise until kNoisySteps; the gradient depends on the parameters. The momentum
/// changes by up to `change` from step to step.
at::Tensor trained(bool nesterov, double of_begin, bool differenced, double change = 0) {
  auto values = at::zeros({kSize}, at::kDouble), buffer = at::zeros_like(values);
  DifferencedNoise added(Placement::kUpdate, nesterov);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const double momentum = of_begin - change * static_cast<double>(step % 4) / 3;
    auto gradient = 0.3 * values + normals_of(Purpose::kData, step);
    const auto noise = step < kNoisySteps ? normals_of(Purpose::kNoise, step) : at::Tensor();
    SgdUpdate update{0.01 + 0.001 * static_cast<double>(step % 3), momentum, 0.01, {}, nesterov, false};
    StepNoise own;
    if (!differenced) own.values = noise;
    if (differenced) {
      if (const auto more = added.next(noise, momentum); more.defined()) gradient = gradient + more;
    }
    sgd_update(values, gradient, buffer, own, update);
  }
  EXPECT_FALSE(differenced && added.last().defined()) << "something is kept long after the noise has stopped";
  return values;
}

TEST(DifferencedNoise, InTheGradientIsNoiseInTheUpdate) {
  for (const bool nesterov : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      const auto expected = trained(nesterov && momentum > 0, momentum, false);
      EXPECT_TRUE(trained(nesterov && momentum > 0, momentum, true).allclose(expected, 1e-12, 1e-12))
          << nesterov << momentum;
    }
  }
}

TEST(DifferencedNoise, FollowsAMomentumThatChanges) {
  for (const bool nesterov : {false, true}) {
    const auto expected = trained(nesterov, 0.9, false, 0.4);
    EXPECT_TRUE(trained(nesterov, 0.9, true, 0.4).allclose(expected, 1e-12, 1e-12)) << nesterov;
  }
}

TEST(DifferencedNoise, OfTheGradientPlacementIsTheNoise) {
  DifferencedNoise added(Placement::kGradient, false);
  const auto noise = normals_of(Purpose::kNoise, 0);
  EXPECT_TRUE(added.next(noise, 0.9).equal(noise));
  EXPECT_FALSE(added.next({}, 0.9).defined());
}

}  // namespace
}  // namespace covnoise
