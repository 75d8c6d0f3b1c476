#pragma once
#include <ATen/ATen.h>

namespace covnoise {

constexpr std::int64_t kNormStatistics = 5;  // arrays [G, C] of ghost_batch_norm's statistics, on every device

/// [5, G, C]: mean, 1 / sqrt(variance + eps), biased variance, scale and shift, with y = x scale + shift.
inline at::Tensor norm_statistics(const at::Tensor& mean, const at::Tensor& rstd, double eps, const at::Tensor& weight,
                                  const at::Tensor& bias) {
  const auto scale = rstd * weight;
  return at::stack({mean, rstd, rstd.pow(-2).sub_(eps), scale, bias - mean * scale});
}

}  // namespace covnoise
