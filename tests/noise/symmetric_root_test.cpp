#include "noise/symmetric_root.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

/// Singular, and above the size from which on LAPACK's single precision routine refuses its own workspace.
TEST(SymmetricRoot, OfALargeSingularMatrix) {
  auto generator = at::detail::createCPUGenerator(1);
  const auto half = torch::randn({2900, 3}, generator, torch::dtype(torch::kFloat32));
  const auto matrix = half.mm(half.t());
  const auto root = symmetric_root(matrix);
  EXPECT_EQ(root.scalar_type(), at::kFloat);
  EXPECT_TRUE(root.mm(root).allclose(matrix, 1e-3, 1e-2));
}

}  // namespace
}  // namespace covnoise
