#include "covnoise/core/internal/mean_std.h"

#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

TEST(MeanStd, IsMeanAndDeviation) {
  EXPECT_NEAR(mean_std_of({0.9, 0.92}).mean, 0.91, 1e-15);
  EXPECT_NEAR(mean_std_of({0.9, 0.92}).deviation, std::sqrt(2e-4), 1e-15);
  EXPECT_EQ(mean_std_of({0.5}).deviation, 0);
  EXPECT_TRUE(std::isnan(mean_std_of({}).mean));
}

}  // namespace
}  // namespace covnoise
