#include "covnoise/train/optimizer.h"

#include "covnoise/core/error.h"
#include "train/loop/clipping.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fnmatch.h>

namespace covnoise {

at::Tensor decay_mask(const FlatParameters& parameters, const std::vector<std::string>& no_decay) {
  if (no_decay.empty()) return {};
  auto mask = at::ones_like(parameters.values());
  for (const auto& pattern : no_decay) {
    bool matched = false;
    for (const auto& entry : parameters.entries()) {
      if (::fnmatch(pattern.c_str(), entry.name.c_str(), 0) != 0) continue;
      parameters.view(mask, entry).zero_();
      matched = true;
    }
    require(matched, fmt::format("train.no_decay: \"{}\" matches no parameter of the network", pattern));
  }
  return mask;
}

Clipped clip(const at::Tensor& gradient, const StepNoise& noise, double clip_norm, bool clip_noise) {
  if (clip_norm == 0) return {gradient, noise, {}, {}};
  const auto factor_of = [&](const at::Tensor& vector) {
    return clip_factor(vector, clip_norm).to(vector.scalar_type());
  };
  if (!noise.defined() || !clip_noise) {
    const auto factor = factor_of(gradient);
    if (!noise.defined()) return {gradient, noise, factor, factor};
    return {gradient * factor, noise, factor, {}};
  }
  // The norm of the sum needs the noise itself, not only its variance.
  const StepNoise added{noise.tensor(), {}, 1, {}};
  const auto factor = factor_of(gradient + added.values);
  return {gradient, added, factor, factor};
}

}  // namespace covnoise
