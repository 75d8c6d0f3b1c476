#pragma once
#include <ATen/ATen.h>

namespace covnoise {

/// The arguments of the operator moment_totals, which sums over all parameters k with moments [2, *sizes] of one device
/// and type, in float64:
///
///     result_i = weights[2 i] sum(moments_k[1]) + weights[2 i + 1] sum(moments_k[0]^2)
inline void check_moment_totals(at::TensorList moments, at::ArrayRef<double> weights) {
  TORCH_CHECK(!moments.empty() && !weights.empty() && weights.size() % 2 == 0, "moment_totals: ", moments.size(),
              " moments and ", weights.size(), " weights; there must be at least one and two, and an even number");
  for (const auto& m : moments)
    TORCH_CHECK(m.is_contiguous() && m.dim() > 0 && m.size(0) == 2 && m.scalar_type() == moments[0].scalar_type() &&
                    m.device() == moments[0].device(),
                "moment_totals: moments ", m.sizes(), " must be contiguous, [2, ...], of one type and device");
}

}  // namespace covnoise
