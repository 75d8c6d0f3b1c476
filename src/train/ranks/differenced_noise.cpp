#include "train/ranks/differenced_noise.h"

#include <ATen/ATen.h>

namespace covnoise {

at::Tensor DifferencedNoise::next(const at::Tensor& noise, double momentum) {
  if (!in_update_ || momentum == 0) return noise;
  if (!noise.defined() && !last_.defined()) return {};
  at::Tensor now = noise;
  if (nesterov_) {
    // Without noise w halves with every step: after 64 of them it is nothing in any precision.
    quiet_ = noise.defined() ? 0 : quiet_ + 1;
    if (!last_.defined()) {
      now = noise / (1 + momentum);
    } else if (quiet_ < 64) {
      now = (noise.defined() ? noise.add(last_, momentum) : last_ * momentum).div_(1 + momentum);
    }
  }
  at::Tensor added = !last_.defined() ? now : now.defined() ? now.sub(last_, momentum) : last_.mul(-momentum);
  last_ = now;
  return added;
}

}  // namespace covnoise
