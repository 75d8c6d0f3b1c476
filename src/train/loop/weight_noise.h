#pragma once
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/ops/sgd_update.h"

#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// Noise in the weights (Placement::kWeights): the gradient of step t is taken at theta_t + n_t,
///
///   theta_(t+1) = theta_t - a g(theta_t + n_t),   n_t = s C^(1/2) xi, or r C^(1/2) xi / |C^(1/2) xi| with a radius r
///
/// with C from the statistics of step t - 1, so that the first step has no noise. In the iterates theta_t + n_t it is
/// the noise n_(t+1) - n_t, anticorrelated from step to step, which smooths and does not diffuse (Orvieto et al. 2022).
/// Nothing here waits for a device.
class WeightNoise {
 public:
  /// `radius`: norm of the noise over all parameters; 0: as it is drawn.
  WeightNoise(FlatParameters& parameters, double radius) : parameters_(parameters), radius_(radius) {}

  /// The noise of the next step, the same on all ranks; undefined: none.
  void set_next(const StepNoise& noise);
  /// Where the next step is one without noise.
  void clear() { next_ = at::Tensor(); }
  at::Tensor norm() const { return next_.defined() ? next_.norm() : at::Tensor(); }  ///< undefined without noise

  at::Tensor weights() const;  ///< theta_t + n_t; undefined without noise

  /// The noise of the next step by parameter, for a checkpoint; empty without noise.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  /// The same to fill in from a checkpoint that has one.
  std::vector<std::pair<std::string, at::Tensor>> state_to_restore();

 private:
  FlatParameters& parameters_;
  double radius_;
  at::Tensor next_;
};

}  // namespace covnoise
