#pragma once
#include <ATen/ATen.h>
#include <torch/version.h>

namespace covnoise::portable {

/// Batched a b with sums in float32 also for factors in bfloat16.
inline at::Tensor products(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kBFloat16) return at::bmm(a, b);
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 208
  if (a.is_cuda()) return at::bmm(a, b, at::kFloat);
#endif
  return at::bmm(a.to(at::kFloat), b.to(at::kFloat));
}

}  // namespace covnoise::portable
