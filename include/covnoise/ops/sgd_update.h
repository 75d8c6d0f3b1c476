#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// One step of stochastic gradient descent for all parameters in one pass over memory, by element:
///
///   d = clip g (+ n) + w theta,   b <- mu b + d,   theta <- theta - a (u (+ n)),   u = b, or d + mu b for Nesterov
///
/// with the noise n in one of the two places.
struct SgdUpdate {
  double lr = 0;               ///< a
  double momentum = 0;         ///< mu; at 0 the buffer is not touched
  double weight_decay = 0;     ///< w
  double gradient_factor = 1;  ///< clip
  bool nesterov = false;
  bool noise_in_gradient = false;  ///< else in the update
};

/// `values`, `gradient`, `momentum` and, where defined, `noise`: contiguous, of one type (float or double) and size.
void sgd_update(at::Tensor& values, const at::Tensor& gradient, at::Tensor& momentum, const at::Tensor& noise,
                const SgdUpdate& update);

}  // namespace covnoise
