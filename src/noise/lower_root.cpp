#include "noise/lower_root.h"

#include <ATen/ATen.h>

#include <tuple>

namespace covnoise {
namespace {

// More than what rounding takes from an eigenvalue of a factor with unit diagonal and a thousand rows.
constexpr double kFloatShare = 1e-4, kDoubleShare = 1e-12;

}  // namespace

at::Tensor lower_root(const at::Tensor& matrix) {
  const auto wide = matrix.to(at::kDouble);
  const auto deviation = wide.diagonal(0, -2, -1).clamp_min(0).sqrt();
  const auto inverse = deviation.reciprocal().masked_fill(deviation.eq(0), 0);  // a dead output: row and column are 0
  auto scaled = wide * inverse.unsqueeze(-1) * inverse.unsqueeze(-2);
  scaled.diagonal(0, -2, -1).add_(matrix.scalar_type() == at::kDouble ? kDoubleShare : kFloatShare);
  const auto lower = std::get<0>(at::linalg_cholesky_ex(scaled));
  return lower.mul(deviation.unsqueeze(-1)).to(matrix.scalar_type());
}

}  // namespace covnoise
