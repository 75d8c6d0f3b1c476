#include "covnoise/analysis/hessian.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

namespace covnoise {

double calibrated_temperature(const at::Tensor& logits, const at::Tensor& labels) {
  constexpr double kLeast = 1e-3, kMost = 1e3;
  constexpr int kIterations = 200;
  const auto z = logits.to(at::kDouble);
  const auto right = z.gather(1, labels.unsqueeze(1)).squeeze(1);
  // L(b) = mean(log sum exp(b z) - b z_y): L' = mean(E z - z_y), L'' = mean(Var z) under softmax(b z).
  double inverse = 1, low = kLeast, high = kMost;
  for (int i = 0; i < kIterations && high - low > 1e-12 * high; ++i) {
    const auto p = torch::softmax(inverse * z, 1);
    const auto mean = (p * z).sum(1);
    const double slope = (mean - right).mean().item<double>();
    const double curvature = ((p * z.pow(2)).sum(1) - mean.pow(2)).mean().item<double>();
    (slope > 0 ? high : low) = inverse;
    const double next = inverse - slope / curvature;
    if (std::abs(next - inverse) <= 1e-12 * inverse) break;
    inverse = next > low && next < high ? next : std::sqrt(low * high);  // Newton, or halve the bracket
  }
  return 1 / std::clamp(inverse, kLeast, kMost);
}

}  // namespace covnoise
