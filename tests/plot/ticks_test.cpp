#include "plot/layout/ticks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace covnoise::plot {
namespace {

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> all;
  for (const auto& tick : ticks) {
    if (!tick.label.empty()) all.push_back(tick.label);
  }
  return all;
}

TEST(Ticks, AreRoundNumbersInsideTheRange) {
  for (const Range range :
       {Range{0, 1}, Range{-3.2, 17.9}, Range{0.00231, 0.00239}, Range{1e7, 9e9}, Range{-1e-9, 1e-9}}) {
    const auto ticks = linear_ticks(range, 7);
    ASSERT_GE(ticks.size(), 3u);
    ASSERT_LE(ticks.size(), 7u);
    const double step = ticks[1].value - ticks[0].value, power = std::pow(10, std::floor(std::log10(step) + 1e-6));
    EXPECT_TRUE(std::abs(step / power - 1) < 1e-6 || std::abs(step / power - 2) < 1e-6 ||
                std::abs(step / power - 5) < 1e-6);
    for (const auto& tick : ticks) {
      EXPECT_GE(tick.value, range.min - 1e-6 * step);
      EXPECT_LE(tick.value, range.max + 1e-6 * step);
    }
  }
}

TEST(Ticks, LabelsShowTheStep) {
  EXPECT_EQ(labels(linear_ticks({0, 1}, 6)), (std::vector<std::string>{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(labels(linear_ticks({-10, 10}, 5)), (std::vector<std::string>{"−10", "−5", "0", "5", "10"}));
}

TEST(Ticks, AreNeverJustOne) {
  EXPECT_EQ(labels(linear_ticks({98.01, 98.97}, 4)), (std::vector<std::string>{"98.2", "98.4", "98.6", "98.8"}));
}

TEST(Ticks, LogarithmicOnesAreDecades) {
  EXPECT_EQ(labels(log_ticks({1e-3, 1e6}, 10)),
            (std::vector<std::string>{"10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹", "10²", "10³", "10⁴", "10⁵", "10⁶"}));
  EXPECT_EQ(labels(log_ticks({1e-3, 1e6}, 5)).size(), 5u);
  EXPECT_EQ(labels(log_ticks({0.9, 120}, 9)), (std::vector<std::string>{"1", "2", "5", "10", "20", "50", "100"}));
  EXPECT_FALSE(labels(log_ticks({2.1, 2.9}, 6)).empty());  // less than a decade
}

TEST(Ticks, NumbersAreWrittenForPeople) {
  EXPECT_EQ(number_label(12000, 0), "12\u202f000");
  EXPECT_EQ(number_label(9000, 0), "9000");
  EXPECT_EQ(number_label(3e-7, 9), "3×10⁻⁷");
  EXPECT_EQ(number_label(-2.5e9, 0), "−2.5×10⁹");
}

}  // namespace
}  // namespace covnoise::plot
