#include "covnoise/core/internal/student_t.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

/// Printed to three or four digits in the tables of statistics books (two-sided 90, 95 and 99 %).
TEST(StudentT, CriticalValuesAreThoseOfThePublishedTables) {
  struct {
    double degrees, t90, t95, t99;
  } const table[] = {{1, 6.314, 12.706, 63.657}, {2, 2.920, 4.303, 9.925},   {3, 2.353, 3.182, 5.841},
                     {4, 2.132, 2.776, 4.604},   {5, 2.015, 2.571, 4.032},   {8, 1.860, 2.306, 3.355},
                     {10, 1.812, 2.228, 3.169},  {20, 1.725, 2.086, 2.845},  {30, 1.697, 2.042, 2.750},
                     {60, 1.671, 2.000, 2.660},  {120, 1.658, 1.980, 2.617}, {1e7, 1.645, 1.960, 2.576}};
  for (const auto& row : table) {
    EXPECT_NEAR(student_t_critical(0.90, row.degrees), row.t90, 5.1e-4) << row.degrees;
    EXPECT_NEAR(student_t_critical(0.95, row.degrees), row.t95, 5.1e-4) << row.degrees;
    EXPECT_NEAR(student_t_critical(0.99, row.degrees), row.t99, 5.1e-4) << row.degrees;
  }
}

/// With 1 and 2 degrees of freedom the tail is 1 - 2/pi atan t and 1 - t / sqrt(2 + t^2).
TEST(StudentT, TailsAreThoseOfTheClosedForms) {
  for (const double t : {0.0, 0.1, 1.0, 3.0, 50.0}) {
    EXPECT_NEAR(student_t_two_sided(t, 1), 1 - 2 * std::atan(t) / M_PI, 1e-13) << t;
    EXPECT_NEAR(student_t_two_sided(-t, 2), 1 - t / std::sqrt(2 + t * t), 1e-13) << t;
  }
  // For large t the tail is 2/(pi t) - 2/(3 pi t^3): no digit is lost to 1 - (1 - p).
  EXPECT_NEAR(student_t_two_sided(1e8, 1) * M_PI * 1e8 / 2, 1, 1e-12);
}

TEST(StudentT, CriticalValueInvertsTheTailForFractionalDegrees) {
  for (const double degrees : {0.7, 2.13, 3.79, 77.5}) {
    EXPECT_NEAR(student_t_two_sided(student_t_critical(0.95, degrees), degrees), 0.05, 1e-13) << degrees;
  }
}

/// I_x(a, b) is the chance of at least a successes of a + b - 1 with chance x each.
TEST(IncompleteBeta, IsTheBinomialTailForIntegers) {
  const auto binomial_tail = [](int a, int b, double x) {
    const int n = a + b - 1;
    double sum = 0;
    for (int k = a; k <= n; ++k) {
      sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) * std::pow(x, k) *
             std::pow(1 - x, n - k);
    }
    return sum;
  };
  for (const double x : {0.01, 0.3, 0.5, 0.92}) {
    EXPECT_NEAR(regularized_incomplete_beta(2, 3, x), binomial_tail(2, 3, x), 1e-13) << x;
    EXPECT_NEAR(regularized_incomplete_beta(9, 4, x), binomial_tail(9, 4, x), 1e-13) << x;
  }
  EXPECT_EQ(regularized_incomplete_beta(2, 3, 0), 0);
  EXPECT_EQ(regularized_incomplete_beta(2, 3, 1), 1);
}

TEST(StudentT, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(student_t_two_sided(1, 0), c10::Error);
  EXPECT_THROW(student_t_critical(1, 3), c10::Error);
  EXPECT_THROW(regularized_incomplete_beta(1, 1, 1.5), c10::Error);
}

}  // namespace
}  // namespace covnoise
