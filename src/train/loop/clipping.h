#pragma once
#include "covnoise/ops/sgd_update.h"

namespace covnoise {

/// Gradient and noise of a step, and the factor c by which they are to be clipped.
struct Clipped {
  at::Tensor gradient;
  StepNoise noise;
  at::Tensor factor;  ///< c; undefined without clipping
  at::Tensor left;    ///< c where the update must still apply it, to both; undefined where it has been done
};

/// c = min(1, clip_norm / |g + n|); without `clip_noise` c = min(1, clip_norm / |g|), of the gradient alone. 0: no
/// clipping.
Clipped clip(const at::Tensor& gradient, const StepNoise& noise, double clip_norm, bool clip_noise);

}  // namespace covnoise
