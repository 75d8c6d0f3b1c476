#include "covnoise/core/internal/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsNan;

/// Extra hours of sleep with two drugs (Student 1908; R's t.test(extra ~ group, sleep) prints the same numbers).
TEST(Welch, AgreesWithAPublishedExample) {
  const auto a = mean_std_of({0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}),
             b = mean_std_of({1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4});
  const auto difference = welch_difference(a, b);
  EXPECT_NEAR(difference.value / difference.standard_error, -1.8608, 5e-5);
  EXPECT_NEAR(difference.degrees, 17.776, 5e-4);
  EXPECT_NEAR(difference.p_value(), 0.07939, 5e-6);
  EXPECT_NEAR(difference.low(), -3.3654832, 5e-8);
  EXPECT_NEAR(difference.high(), 0.2054832, 5e-8);
  EXPECT_NEAR(difference.p_value(difference.high()), 0.05, 1e-12) << "an end of the interval is just not rejected";
}

TEST(Welch, HasNoIntervalWithoutAVariance) {
  const auto difference = welch_difference(mean_std_of({0.9}), mean_std_of({0.8, 0.82}));
  EXPECT_DOUBLE_EQ(difference.value, 0.09);
  EXPECT_FALSE(difference.has_interval());
  EXPECT_THAT(difference.low(), IsNan());
  EXPECT_THAT(difference.p_value(), IsNan());
}

TEST(Welch, RunsThatAgreeExactlyHaveAnIntervalOfLengthZero) {
  const auto difference = welch_difference(mean_std_of({0.5, 0.5}), mean_std_of({0.25, 0.25}));
  EXPECT_EQ(difference.low(), 0.25);
  EXPECT_EQ(difference.high(), 0.25);
  EXPECT_EQ(difference.p_value(), 0);
  EXPECT_EQ(difference.p_value(0.25), 1);
}

/// Two values x and x + d: s = d / sqrt 2, so the half-width is 12.706 d / 2.
TEST(HalfWidth, IsStudentsInterval) {
  EXPECT_NEAR(half_width(mean_std_of({1, 3})), 12.706, 5e-4);
  EXPECT_NEAR(half_width(mean_std_of({1, 2, 3})), 4.303 / std::sqrt(3), 5e-4);
  EXPECT_THAT(half_width(mean_std_of({1})), IsNan());
  EXPECT_EQ(percent_interval_text(mean_std_of({0.89, 0.9, 0.91})), "90.00 +- 2.48");
  EXPECT_EQ(percent_interval_text(mean_std_of({0.5})), "50.00");
  EXPECT_EQ(percent_interval_text(mean_std_of({})), "-");
  EXPECT_EQ(percent_interval_text(mean_std_of({NAN})), "-");
}

TEST(Holm, AdjustsStepByStep) {
  const auto near = [](double p) { return DoubleNear(p, 1e-15); };
  EXPECT_THAT(holm_adjusted({0.01, 0.04, 0.03, 0.005}), ElementsAre(near(0.03), near(0.06), near(0.06), near(0.02)));
  EXPECT_THAT(holm_adjusted({0.9, 0.04, 0.6}), ElementsAre(near(1), near(0.12), near(1)));
  EXPECT_THAT(holm_adjusted({0.04, NAN, 0.03}), ElementsAre(near(0.06), IsNan(), near(0.06)));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

/// Log risk ratios of 13 trials of the BCG vaccine with their variances, the standard example of meta-analysis: tau^2
/// 0.3088, mean -0.7141 with a standard error of 0.1787 before Hartung's and Knapp's factor (metafor's rma, "DL").
TEST(RandomEffects, AgreesWithAPublishedExample) {
  const double effects[] = {-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209,
                            0.0120,  -0.4694, -1.3713, -0.3394, 0.4459,  -0.0173},
               variances[] = {0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230,
                              0.0040, 0.0564, 0.0730, 0.0124, 0.5325, 0.0714};
  std::vector<Estimate> trials;
  double weight = 0, scatter = 0;
  for (int i = 0; i < 13; ++i) trials.push_back({effects[i], std::sqrt(variances[i]), 100});
  const auto pooled = pool_random_effects(trials);
  EXPECT_NEAR(pooled.between * pooled.between, 0.3088, 1e-3);
  EXPECT_NEAR(pooled.mean.value, -0.7141, 1e-3);
  for (int i = 0; i < 13; ++i) {
    const double v = 1 / (variances[i] + 0.3088);
    weight += v;
    scatter += v * (effects[i] + 0.7141) * (effects[i] + 0.7141);
  }
  EXPECT_NEAR(1 / std::sqrt(weight), 0.1787, 1e-4);
  EXPECT_NEAR(pooled.mean.standard_error, 0.1787 * std::sqrt(std::max(1.0, scatter / 12)), 1e-3);
  EXPECT_EQ(pooled.mean.degrees, 12);
}

/// Two rows at +-d with the error s: tau^2 = 2 d^2 - s^2 and a standard error of d, or none and s / sqrt 2.
TEST(RandomEffects, IsTheClosedFormForTwoRows) {
  const auto far = pool_random_effects({{3, 1, 4}, {-3, 1, 4}});
  EXPECT_NEAR(far.mean.value, 0, 1e-15);
  EXPECT_NEAR(far.between, std::sqrt(17), 1e-14);
  EXPECT_NEAR(far.mean.standard_error, 3, 1e-14);
  const auto close = pool_random_effects({{0.5, 1, 4}, {-0.5, 1, 4}});
  EXPECT_EQ(close.between, 0);
  EXPECT_NEAR(close.mean.standard_error, std::sqrt(0.5), 1e-15);
}

TEST(RandomEffects, LeavesOutRowsWithoutAStandardError) {
  const auto pooled = pool_random_effects({{1, 1, 4}, {9, NAN, NAN}, {3, 1, 4}, {7, 0, 4}});
  EXPECT_EQ(pooled.rows, 2);
  EXPECT_NEAR(pooled.mean.value, 2, 1e-15);
  EXPECT_FALSE(pool_random_effects({{1, 1, 4}, {2, NAN, NAN}}).mean.has_interval());
}

}  // namespace
}  // namespace covnoise
