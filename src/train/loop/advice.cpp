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

}  // namespace covnoise
