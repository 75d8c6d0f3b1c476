#pragma once
#include "covnoise/ops/philox.h"

#include <ATen/core/Tensor.h>

namespace covnoise {

/// The noise of a step: the values, or the variance from which the update draws it without storing it.
struct StepNoise {
  at::Tensor values;    ///< the noise itself; or
  at::Tensor variance;  ///< noise = scale sqrt(variance) xi
  double scale = 1;     ///< of noise given by its variance
  RandomStream stream;  ///< of xi

  bool defined() const { return values.defined() || variance.defined(); }
  at::Tensor tensor() const;  ///< the values, drawn if necessary; undefined without noise
};

/// c = min(1, longest / |vector|), a double on the vector's device: c times the vector is at most so long.
at::Tensor clip_factor(const at::Tensor& vector, double longest);

/// One step of stochastic gradient descent for all parameters in one pass over memory, by element:
///
///   d = c g (+ c n) + w theta,   b <- mu b + d,   theta <- theta - a (u (+ c n)),   u = b, or d + mu b for Nesterov
///
/// with the noise n in the gradient or in the update, and one factor c that clips both.
struct SgdUpdate {
  double lr = 0;                   ///< a
  double momentum = 0;             ///< mu; at 0 the buffer is not touched
  double weight_decay = 0;         ///< w
  at::Tensor clip;                 ///< c: one number, on the device of the parameters; undefined: 1
  bool nesterov = false;           ///< u = d + mu b
  bool noise_in_gradient = false;  ///< otherwise in the update
};

/// `values`, `gradient`, `momentum` and the noise: contiguous, of one device, type (float or double; on a GPU float)
/// and size. torch.ops.covnoise.sgd_update.
void sgd_update(at::Tensor& values, const at::Tensor& gradient, at::Tensor& momentum, const StepNoise& noise,
                const SgdUpdate& update);

}  // namespace covnoise
