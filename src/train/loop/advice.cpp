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

std::string advice_for_end_of_noise(const Config& config) {
  const bool together =
      config.train.clip_norm > 0 && config.noise.clip_norm == 0 && config.noise.placement != Placement::kWeights;
  if (!together) return "lower train.lr, or let the noise last (noise.stop_after=1)";
  // In the update four times the norm of the gradient leaves the noise its scale (docs/noise.md).
  const double times = config.noise.placement == Placement::kUpdate ? 4 : 1;
  return fmt::format(
      "train.clip_norm clipped gradient and noise by one factor, so that the end of the noise raises the effective "
      "learning rate; clip the noise apart (noise.clip_norm={:g}), or let it last (noise.stop_after=1)",
      times * config.train.clip_norm);
}

}  // namespace covnoise
