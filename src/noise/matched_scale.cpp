#include "covnoise/core/error.h"
#include "covnoise/noise/injection.h"
#include "noise/formula_scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

/// (a_S,eff / a_eff) / M_S: what 1/M_L + q s^2 has to be without clipping. 0 at a learning rate of 0, which moves
/// nothing.
double matched_inverse_batch(const NoiseOptions& options, const StepContext& context) {
  require(options.match_lr > 0, "noise.scale = \"match\" needs the learning rate of the small batch: noise.match_lr");
  const double small_rate = options.match_lr * context.match_factor / (1 - options.match_momentum);
  const double rate = context.lr / (1 - context.momentum);
  if (rate == 0) return 0;
  return small_rate / rate / static_cast<double>(options.small_batch);
}

/// q
double temperature_of_noise(const NoiseOptions& options, const StepContext& context) {
  return options.placement == Placement::kUpdate ? std::pow(1 - context.momentum, 2) : 1;
}

}  // namespace

double matched_scale_squared(const NoiseOptions& options, const StepContext& context) {
  const double missing = matched_inverse_batch(options, context) - 1.0 / static_cast<double>(context.batch);
  const double squared = std::max(0.0, missing) / temperature_of_noise(options, context);
  if (options.placement == Placement::kUpdate) return squared;
  return std::min(squared, formula_scale_squared(options.small_batch, context.batch));
}

/// With y = 1/M_L + q s^2, K = matched_inverse_batch, G = |g|^2, T = |n|^2 / q: where clipping acts, c y = K |g + s n|
/// is c^2 y^2 - K^2 T y - K^2 (G - T / M_L) = 0, and its larger root is where the temperature reaches that of the small
/// batch, unless it is there without noise.
at::Tensor clipped_match_scale(const NoiseOptions& options, const StepContext& context, const at::Tensor& gradient_norm,
                               const at::Tensor& sample_norm) {
  const double wanted = matched_inverse_batch(options, context), inverse = 1.0 / static_cast<double>(context.batch);
  const double q = temperature_of_noise(options, context), limit = std::pow(context.clip_norm, 2);
  const auto gradient = gradient_norm.to(at::kDouble).square(), sample = sample_norm.to(at::kDouble).square() / q;
  const auto half = sample * (wanted * wanted / 2);
  const auto root = (half.square() + (gradient - sample * inverse) * (limit * wanted * wanted)).clamp_min(0).sqrt();
  const auto clipped = (half + root) / limit - inverse;
  const double free = std::max(0.0, wanted - inverse);
  auto scaled = at::where(gradient + sample * free <= limit, at::full_like(clipped, free), clipped.clamp_min(0));
  const auto alone = (limit / gradient).clamp_max(1).sqrt() * inverse;
  scaled = at::where(alone >= wanted, at::zeros_like(scaled), scaled) / q;
  if (options.placement == Placement::kGradient)
    scaled = scaled.clamp_max(formula_scale_squared(options.small_batch, context.batch));
  return scaled.sqrt();
}

}  // namespace covnoise
