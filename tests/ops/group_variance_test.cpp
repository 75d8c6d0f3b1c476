#include "covnoise/ops/group_variance.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/device.h"

namespace covnoise {
namespace {

/// Against the variance between the means of groups, by its definition.
TEST(GroupVariance, IsThatOfTheGroupsMeans) {
  at::manual_seed(7);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const std::int64_t groups = 5, size = 12, n = 70001;
    const auto sums = testing::on_device(at::randn({groups, n}, at::kDouble) * 3 + 1);
    at::Tensor squares = sums.square().sum(0).to(dtype);
    const auto mean = sums.sum(0).div(groups * size).to(dtype);
    group_variance(squares, mean, groups, size);
    const auto expected = (sums / size).var(0, /*unbiased=*/true) * size;
    const double tolerance = dtype == at::kDouble ? 1e-10 : 1e-4;
    EXPECT_TRUE(squares.to(at::kDouble).allclose(expected, tolerance, tolerance));
  }
}

TEST(GroupVariance, IsNeverNegative) {
  at::Tensor squares = testing::on_device(at::zeros({9}));
  group_variance(squares, testing::on_device(at::ones({9})), 2, 4);
  EXPECT_TRUE(squares.eq(0).all().item<bool>());
}

TEST(GroupVariance, RefusesOneGroupAndOtherSizes) {
  at::Tensor squares = testing::on_device(at::zeros({9}));
  EXPECT_THROW(group_variance(squares, squares, 1, 4), c10::Error);
  EXPECT_THROW(group_variance(squares, testing::on_device(at::zeros({8})), 2, 4), c10::Error);
}

}  // namespace
}  // namespace covnoise
