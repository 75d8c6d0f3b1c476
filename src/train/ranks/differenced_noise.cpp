#include "train/ranks/differenced_noise.h"

#include <ATen/ATen.h>

namespace covnoise {

at::Tensor DifferencedNoise::next(const at::Tensor& noise) {
  if (momentum_ == 0) return noise;
  if (!noise.defined() && !last_.defined()) return {};
  at::Tensor now = noise;
  if (nesterov_) {
    // Without noise w halves with every step: after 64 of them it is nothing in any precision.
    quiet_ = noise.defined() ? 0 : quiet_ + 1;
    if (!last_.defined()) {
      now = noise / (1 + momentum_);
    } else if (quiet_ < 64) {
      now = (noise.defined() ? noise.add(last_, momentum_) : last_ * momentum_).div_(1 + momentum_);
    }
  }
  at::Tensor added = !last_.defined() ? now : now.defined() ? now.sub(last_, momentum_) : last_.mul(-momentum_);
  last_ = now;
  return added;
}

}  // namespace covnoise
