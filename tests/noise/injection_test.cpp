#include "covnoise/noise/injection.h"

#include "covnoise/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

NoiseOptions diagonal() {
  NoiseOptions options;
  options.structure = "diag-fisher";
  return options;
}

StepContext context(std::int64_t batch = 4096) {
  StepContext context;
  context.batch = batch;
  context.lr = 1.6;
  context.momentum = 0.9;
  return context;
}

TEST(Injection, ScaleMakesUpForTheMissingNoise) {
  // C / M_L + s^2 C = C / M_S.
  const double s = Injection(diagonal()).scale(context());
  EXPECT_NEAR(1.0 / 4096 + s * s, 1.0 / 128, 1e-15);
}

TEST(Injection, StopsAfterItsFractionAndNeedsNothingThen) {
  const Injection injection(diagonal());
  StepContext late = context();
  late.fraction = 0.25;
  EXPECT_EQ(injection.scale(late), 0);
  EXPECT_EQ(injection.needs(late).squares, Squares::kNone);
  EXPECT_EQ(injection.needs(context()).squares, Squares::kExact);
  EXPECT_EQ(injection.scale(context(128)), 0);  // a small batch lacks nothing
}

TEST(Injection, MatchedScaleIsTheFormulasAtTheSmallRateAndNothingAtTheScaledOne) {
  auto options = diagonal();
  options.scale.match = true;
  options.match_lr = 0.1;
  options.placement = Placement::kGradient;
  StepContext step = context();
  step.lr = 0.1;
  EXPECT_NEAR(Injection(options).scale(step), Injection(diagonal()).scale(context()), 1e-12);
  step.lr = 3.2;
  EXPECT_NEAR(Injection(options).scale(step), 0, 1e-9);
  step.lr = 0.01;  // warm-up: held at the formula's
  EXPECT_NEAR(Injection(options).scale(step), Injection(diagonal()).scale(context()), 1e-12);
}

TEST(Injection, MatchedTemperatureIsTheSmallBatchs) {
  for (const auto placement : {Placement::kGradient, Placement::kUpdate}) {
    auto options = diagonal();
    options.scale.match = true;
    options.match_lr = 0.1;
    options.placement = placement;
    const StepContext step = context();  // rate 1.6, half of linear scaling
    const double large = step.lr / (1 - step.momentum) / static_cast<double>(step.batch);
    EXPECT_NEAR(large + Injection(options).noise_temperature(step), 0.1 / 0.1 / 128, 1e-12);
  }
}

/// By the definition: the clipped temperature at the s that is returned, for gradients and noise on both sides of
/// clip_norm and of the small batch's temperature.
TEST(Injection, MatchedTemperatureCountsTheClipping) {
  int matched = 0, hot = 0, limited = 0;
  for (const auto placement : {Placement::kGradient, Placement::kUpdate})
    for (const double lr : {0.4, 1.6, 6.4})
      for (const double gradient : {0.01, 0.3, 3.0, 30.0})
        for (const double sample : {0.01, 1.0, 30.0, 1000.0}) {
          auto options = diagonal();
          options.scale.match = true;
          options.match_lr = 0.1;
          options.placement = placement;
          StepContext step = context();
          step.lr = lr;
          step.clip_norm = 1;
          const auto scalar = [](double value) { return at::full({}, value, at::kDouble); };
          const double s = clipped_match_scale(options, step, scalar(gradient), scalar(sample)).item<double>();
          const double q = placement == Placement::kUpdate ? 0.01 : 1;
          const auto temperature = [&](double x) {
            return std::min(1.0, 1 / std::hypot(gradient, std::sqrt(x) * sample)) * lr / 0.1 * (1.0 / 4096 + q * x);
          };
          const double wanted = 0.1 / 0.1 / 128, reached = temperature(s * s);
          if (s == 0) {
            ++hot;
            EXPECT_GE(reached, wanted * (1 - 1e-12));
          } else if (placement == Placement::kGradient && std::abs(s * s - (1.0 / 128 - 1.0 / 4096)) < 1e-15) {
            ++limited;
            EXPECT_LE(reached, wanted * (1 + 1e-12));
          } else {
            ++matched;
            EXPECT_NEAR(reached / wanted, 1, 1e-9);
          }
        }
  EXPECT_GT(matched, 20);
  EXPECT_GT(hot, 5);
  EXPECT_GT(limited, 5);
}

/// A schedule may end at 0, where both learning rates are 0.
TEST(Injection, MatchedTemperatureAtALearningRateOfZeroIsNoNoise) {
  auto options = diagonal();
  options.scale.match = true;
  options.match_lr = 0.1;
  StepContext step = context();
  step.lr = 0;
  step.match_factor = 0;
  EXPECT_EQ(matched_scale_squared(options, step), 0);
  step.clip_norm = 1;
  const auto norm = at::full({}, 5.0, at::kDouble);
  EXPECT_EQ(clipped_match_scale(options, step, norm, norm).item<double>(), 0);
}

TEST(Injection, SigmaAloneScalesIsotropicNoise) {
  auto options = diagonal();
  options.structure = "isotropic";
  EXPECT_EQ(Injection(options).scale(context()), 1);
  EXPECT_EQ(Injection(options).scale(context(64)), 1);
}

/// By values and by variance; noise that is short enough, or none, stays as it is.
TEST(Injection, ClipsTheNoiseApart) {
  auto options = diagonal();
  options.clip_norm = 2;
  const Injection injection(options);
  const auto values = at::arange(1, 6, at::kDouble);
  const StepNoise by_variance{{}, values, 0.7, {3, Purpose::kNoise, 5}};
  for (const auto& noise : {StepNoise{values, {}, 1, {}}, by_variance}) {
    const double length = noise.tensor().norm().item<double>();
    const auto [clipped, factor] = injection.clipped(noise);
    EXPECT_NEAR(factor.item<double>(), std::min(1.0, 2 / length), 1e-12);
    EXPECT_TRUE(clipped.tensor().allclose(noise.tensor() * std::min(1.0, 2 / length), 1e-12, 1e-12));
  }
  EXPECT_EQ(injection.clipped({values * 0.1, {}, 1, {}}).second.item<double>(), 1);
  EXPECT_FALSE(injection.clipped({}).second.defined());
  EXPECT_FALSE(Injection(diagonal()).clipped(by_variance).second.defined());
  EXPECT_TRUE(Injection(diagonal()).clipped(by_variance).first.variance.defined());
}

TEST(Injection, RefusesToClipNoiseThatHasItsStrengthFromElsewhere) {
  auto options = diagonal();
  options.clip_norm = 1;
  options.placement = Placement::kWeights;
  EXPECT_THAT([&] { Injection injection(options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("noise.clip_norm = 1 is for noise that is added")));
  options.placement = Placement::kUpdate;
  options.scale.match = true;
  options.match_lr = 0.1;
  EXPECT_THAT([&] { Injection injection(options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("noise.clip_norm = 1 would miss the temperature")));
}

TEST(Injection, RefusesToMatchATemperatureWithNoiseThatHasASigma) {
  auto options = diagonal();
  options.scale.match = true;
  options.match_lr = 0.1;
  for (const char* structure : {"multiplicative", "isotropic"}) {
    options.structure = structure;
    EXPECT_THAT([&] { Injection injection(options); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("has noise.sigma instead")))
        << structure;
  }
  options.structure = "none";
  Injection injection(options);
}

TEST(Injection, RefusesARefreshOfDraws) {
  for (const std::string structure : {"full-fisher", "true-fisher", "kfac", "diag-fisher"}) {
    auto options = diagonal();
    options.structure = structure;
    options.refresh = 7;
    if (structure == "diag-fisher") options.estimator = "signs";
    EXPECT_THAT([&] { Injection injection(options); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("noise.refresh = 7")));
  }
}

TEST(Injection, RefusesARefreshOfNoSteps) {
  auto options = diagonal();
  options.refresh = 0;
  EXPECT_THAT([&] { Injection injection(options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("noise.refresh = 0 must be at least 1")));
}

/// The options' own structure, "none" by default, does not count.
TEST(Injection, AroundAStructureOfTheCallersAddsItsNoise) {
  NoiseOptions options;
  const Injection injection(options, make_structure(diagonal()));
  EXPECT_EQ(injection.scale(context()), Injection(diagonal()).scale(context()));
  EXPECT_FALSE(injection.needs(context()) == Needs{});
}

}  // namespace
}  // namespace covnoise
