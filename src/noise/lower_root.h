#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// Lower triangular L with L L^T = matrix, for positive semi-definite matrices [..., n, n], singular ones included: the
/// diagonal, by which rounding errors are judged, is made larger by one part in 10,000 (float32; float64: 10^12).
at::Tensor lower_root(const at::Tensor& matrix);

}  // namespace covnoise
