#include "noise/symmetric_root.h"

#include <ATen/ATen.h>

namespace covnoise {
namespace {

// LAPACK's ssyevd says how much workspace it wants, 1 + 6 n + 2 n^2 elements, in a float: from here on that rounds to
// less than it then insists on.
constexpr std::int64_t kLargestFloat = 2048;

}  // namespace

at::Tensor symmetric_root(const at::Tensor& matrix) {
  const bool widen = matrix.size(0) > kLargestFloat && matrix.scalar_type() == at::kFloat;
  const auto eigen = at::linalg_eigh(widen ? matrix.to(at::kDouble) : matrix);
  const auto& vectors = std::get<1>(eigen);
  return vectors.mul(std::get<0>(eigen).clamp_min(0).sqrt()).matmul(vectors.t()).to(matrix.scalar_type());
}

}  // namespace covnoise
