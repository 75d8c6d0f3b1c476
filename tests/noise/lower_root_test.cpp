#include "noise/lower_root.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

/// Factors of `rank` random rows, with one output that is dead and scales over eight orders of magnitude.
at::Tensor factors(std::int64_t size, std::int64_t rank, at::ScalarType type) {
  const auto rows = at::randn({3, rank, size}, at::kDouble) * at::logspace(-4, 4, size, 10.0, at::kDouble);
  rows.select(2, size / 2).zero_();
  return rows.transpose(1, 2).matmul(rows).to(type);
}

TEST(LowerRoot, TimesItsTransposeIsTheMatrixAlsoWhereItIsSingular) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t rank : {2, 40, 400}) {
      const auto matrix = factors(64, rank, type);
      const auto root = lower_root(matrix);
      EXPECT_EQ(root.scalar_type(), type);
      EXPECT_TRUE(root.triu(1).eq(0).all().item<bool>());
      const auto wide = root.to(at::kDouble), expected = matrix.to(at::kDouble);
      const auto deviation = expected.diagonal(0, 1, 2).sqrt();
      const auto limit = deviation.unsqueeze(1) * deviation.unsqueeze(2) * (type == at::kFloat ? 1.1e-4 : 1e-10);
      EXPECT_TRUE((wide.matmul(wide.transpose(1, 2)) - expected).abs().le(limit).all().item<bool>()) << rank;
    }
  }
}

}  // namespace
}  // namespace covnoise
