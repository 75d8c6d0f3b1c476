#pragma once
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/noise/options.h"
#include "covnoise/ops/sgd_update.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// What updates the parameters of a network from their gradient and the noise of a step: Sgd or AdamW.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One step from the mean gradient in parameters.gradient(), which is not changed. `noise` may be undefined. With
  /// clip_norm returns c = min(1, clip_norm / |g + n|), the factor of gradient and noise (without clip_noise
  /// min(1, clip_norm / |g|), of the gradient): a scalar on the device of the parameters; otherwise undefined.
  virtual at::Tensor step(double lr, const StepNoise& noise, Placement placement) = 0;
  /// The buffer of the gradients of earlier steps: of Sgd their decayed sum, of AdamW their decayed average.
  virtual at::Tensor momentum() const = 0;
  /// What a checkpoint keeps, by name: buffers of the parameters' layout.
  virtual std::vector<std::pair<std::string, at::Tensor>> buffers() const = 0;
  /// For a resumed training.
  virtual void set_steps_done(std::int64_t) {}
};

/// 1 for parameters with weight decay and 0 for those whose name matches one of the patterns ("*.bias", "*bn*"; as in
/// a shell), in the layout of the parameters. Undefined without patterns; a pattern that matches nothing is an Error.
at::Tensor decay_mask(const FlatParameters& parameters, const std::vector<std::string>& no_decay);

}  // namespace covnoise
