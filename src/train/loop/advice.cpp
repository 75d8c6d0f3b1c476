#include "train/loop/advice.h"

#include <fmt/format.h>

namespace covnoise {

std::string advice_for_loss(const Config& config) {
  const std::string rest = "lengthen train.warmup or lower train.lr";
  const double clip = config.train.clip_norm;
  std::string text = clip == 0 ? "clip the gradient (train.clip_norm=1), " + rest
                               : fmt::format("{}, or clip the gradient more (train.clip_norm = {:g} now)", rest, clip);
  const auto& noise = config.noise;
  if (noise.structure != "none" && noise.placement == Placement::kWeights && noise.radius == 0)
    text += "; or bound the noise in the weights, which raises the gradient and so itself (noise.radius=0.05)";
  return text;
}

bool shares_clipping(const Config& config) {
  return config.train.clip_norm > 0 && config.noise.clip_norm == 0 && config.noise.placement != Placement::kWeights;
}

std::string advice_for_shared_clipping(const Config& config) {
  const std::string lasting = "let it last (noise.stop_after=1)";
  if (config.noise.scale.match) return lasting;  // which clipping apart would miss
  // In the update four times the norm of the gradient leaves the noise its scale (docs/noise.md).
  const double times = config.noise.placement == Placement::kUpdate ? 4 : 1;
  return fmt::format("clip the noise apart (noise.clip_norm={:g}), or {}", times * config.train.clip_norm, lasting);
}

std::string advice_for_end_of_noise(const Config& config) {
  if (!shares_clipping(config)) return "lower train.lr, or let the noise last (noise.stop_after=1)";
  return "train.clip_norm clipped gradient and noise by one factor, so that the end of the noise raises the effective "
         "learning rate; " +
         advice_for_shared_clipping(config);
}

}  // namespace covnoise
