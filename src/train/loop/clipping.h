#pragma once
#include "covnoise/ops/sgd_update.h"

namespace covnoise {

/// The noise of a step and the factor c of gradient and noise; c is undefined without clipping.
struct Clipped {
  StepNoise noise;
  at::Tensor factor;
};

/// c = min(1, clip_norm / |g + n|); 0: no clipping.
Clipped clip(const at::Tensor& gradient, const StepNoise& noise, double clip_norm);

}  // namespace covnoise
