#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// The symmetric root of a positive semi-definite matrix. Kronecker factors are singular (dead pixels), so a Cholesky
/// factor need not exist; eigenvalues that rounding made negative count as zero.
at::Tensor symmetric_root(const at::Tensor& matrix);

}  // namespace covnoise
