#pragma once
#include "covnoise/ops/sgd_update.h"

#include <cstdint>

namespace covnoise {

/// One step of AdamW (Loshchilov and Hutter, 2019), as PyTorch defines it, for all parameters in one pass over memory,
/// by element, with t the number of the step from 1:
///
///   d = c g (+ c n),   m <- beta1 m + (1 - beta1) d,   v <- beta2 v + (1 - beta2) d^2,
///   theta <- (1 - a w) theta - a (m / (1 - beta1^t) (+ c n)) / (sqrt(v / (1 - beta2^t)) + eps)
///
/// with the noise n in the gradient, or in the update: there it passes by the moments m and v, but is divided by the
/// root of v as they are.
struct AdamWUpdate {
  double lr = 0;                      ///< a
  double beta1 = 0.9, beta2 = 0.999;  ///< of the two moments
  double eps = 1e-8;                  ///< added to the root
  double weight_decay = 0;            ///< w, not through the moments
  at::Tensor decayed;                 ///< 1 where w holds and 0 where not, as `values`; undefined: everywhere
  at::Tensor clip;                    ///< c: one number, on the device of the parameters; undefined: 1
  bool noise_in_gradient = false;     ///< otherwise in the update
  std::int64_t step = 1;              ///< t
};

/// `values`, `gradient`, the moments m and v, the noise: contiguous, of one device, type (float or double; on a GPU
/// float) and size. torch.ops.covnoise.adamw_update.
void adamw_update(at::Tensor& values, const at::Tensor& gradient, at::Tensor& first, at::Tensor& second,
                  const StepNoise& noise, const AdamWUpdate& update);

}  // namespace covnoise
