#pragma once
#include "covnoise/noise/injection.h"

namespace covnoise {

/// Noise of the update placement, added to the gradient so that an all-reduce can carry it. With momentum mu and noise
/// n_t,
///
///   heavy ball: w_t = n_t;    Nesterov: w_t = (n_t + mu w_(t-1)) / (1 + mu);    added: w_t - mu w_(t-1)
///
/// leaves the momentum buffer w_t larger than with the update placement, and the parameters the same, also where mu
/// changes from step to step. Noise in the gradient is added unchanged.
class DifferencedNoise {
 public:
  DifferencedNoise(Placement placement, bool nesterov)
      : in_update_(placement == Placement::kUpdate), nesterov_(nesterov) {}

  /// What to add to the gradient of the next step, whose noise is `noise` (may be undefined) and whose momentum is mu.
  /// Undefined: nothing.
  at::Tensor next(const at::Tensor& noise, double momentum);

  /// w of the last step and the number of steps since the last noise: what a checkpoint must keep. Undefined: 0.
  const at::Tensor& last() const { return last_; }
  std::int64_t quiet() const { return quiet_; }
  void restore(const at::Tensor& last, std::int64_t quiet) {
    last_ = last;
    quiet_ = quiet;
  }

 private:
  bool in_update_;
  bool nesterov_;
  at::Tensor last_;
  std::int64_t quiet_ = 0;
};

}  // namespace covnoise
