#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace covnoise {

/// Last step of the ghost estimator, in place, in one pass over memory. With S_j the summed gradient of group j of
/// `groups` groups of `size` examples, S their sum and `mean` = S / (groups size), sums of squares sum_j S_j^2 become
///
///   size / (groups - 1) sum_j (S_j / size - mean)^2 = (sum_j S_j^2 - groups size^2 mean^2) / (size (groups - 1)),
///
/// or 0 where rounding makes it negative. Contiguous, float or double. torch.ops.covnoise.group_variance.
void group_variance(at::Tensor& squares, const at::Tensor& mean, std::int64_t groups, std::int64_t size);

}  // namespace covnoise
