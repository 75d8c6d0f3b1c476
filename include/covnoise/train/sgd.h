#pragma once
#include "covnoise/noise/injection.h"
#include "covnoise/train/optimizer.h"

namespace covnoise {

/// Hyperparameters of Sgd.
struct SgdOptions {
  double momentum = 0.9;                   ///< factor of the momentum buffer
  bool nesterov = false;                   ///< Nesterov's momentum
  double weight_decay = 0;                 ///< times the weight, added to the gradient
  double clip_norm = 0;                    ///< largest norm of gradient plus noise, before weight decay; 0: no clipping
  std::vector<std::string> no_decay = {};  ///< patterns of parameters without weight decay (decay_mask)
  bool clip_noise = true;                  ///< false: clip_norm is of the gradient alone, and the noise is not clipped
};

/// Stochastic gradient descent with momentum, as PyTorch defines it (the learning rate outside the buffer), with noise
/// in the gradient or in the update: ops/sgd_update.h has the formula. With clip_norm, the gradient g and the noise n
/// have the same factor in both placements,
///
///   c = min(1, clip_norm / |g + n|)
///
/// as a small batch clips its own noisy gradient; without clip_noise c is that of the gradient alone. Momentum and
/// weight decay are not clipped.
class Sgd final : public Optimizer {
 public:
  Sgd(FlatParameters& parameters, const SgdOptions& options);

  at::Tensor step(double lr, const StepNoise& noise, Placement placement) override;
  std::vector<std::pair<std::string, at::Tensor>> buffers() const override;
  at::Tensor momentum() const override { return momentum_; }

 private:
  FlatParameters& parameters_;
  SgdOptions options_;
  at::Tensor momentum_, decayed_;
};

}  // namespace covnoise
