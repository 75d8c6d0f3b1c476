#pragma once
#include "covnoise/train/optimizer.h"

namespace covnoise {

/// Hyperparameters of AdamW.
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999;       ///< factors of the moments
  double eps = 1e-8;                       ///< added to the root of the second moment
  double weight_decay = 0;                 ///< decoupled: times learning rate and weight
  double clip_norm = 0;                    ///< largest norm of gradient plus noise; 0: no clipping
  std::vector<std::string> no_decay = {};  ///< patterns of parameters without weight decay (decay_mask)
  bool clip_noise = true;                  ///< false: clip_norm is of the gradient alone, and the noise is not clipped
};

/// AdamW as PyTorch defines it, with noise in the gradient or in the update: ops/adamw_update.h has the formula. Its
/// state is float32 where the parameters are.
class AdamW final : public Optimizer {
 public:
  AdamW(FlatParameters& parameters, const AdamWOptions& options);

  at::Tensor step(double lr, const StepNoise& noise, Placement placement) override;
  std::vector<std::pair<std::string, at::Tensor>> buffers() const override;
  at::Tensor momentum() const override { return first_; }
  void set_steps_done(std::int64_t steps) override { steps_ = steps; }

 private:
  FlatParameters& parameters_;
  AdamWOptions options_;
  at::Tensor first_, second_, decayed_;
  std::int64_t steps_ = 0;
};

}  // namespace covnoise
