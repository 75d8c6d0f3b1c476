#pragma once
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/noise/injection.h"

namespace covnoise {

/// Hyperparameters of Sgd.
struct SgdOptions {
  double momentum = 0.9;    ///< factor of the momentum buffer
  bool nesterov = false;    ///< Nesterov's momentum
  double weight_decay = 0;  ///< on all parameters, added to the gradient
  double clip_norm = 0;     ///< largest norm of gradient plus noise, before weight decay; 0: no clipping
};

/// Stochastic gradient descent with momentum, as PyTorch defines it (the learning rate outside the buffer), with noise
/// in the gradient or in the update: ops/sgd_update.h has the formula. With clip_norm, the gradient g and the noise n
/// have the same factor in both placements,
///
///   c = min(1, clip_norm / |g + n|)
///
/// as a small batch clips its own noisy gradient. Momentum and weight decay are not clipped.
class Sgd {
 public:
  Sgd(FlatParameters& parameters, const SgdOptions& options);

  /// One step from the mean gradient in parameters.gradient(), which is not changed. `noise` may be undefined. Returns
  /// c, a scalar on the device of the parameters; undefined without clip_norm.
  at::Tensor step(double lr, const StepNoise& noise, Placement placement);

  at::Tensor& momentum_buffer() { return momentum_; }

 private:
  FlatParameters& parameters_;
  SgdOptions options_;
  at::Tensor momentum_;
};

}  // namespace covnoise
