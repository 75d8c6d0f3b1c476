#pragma once
#include "covnoise/nn/flat_parameters.h"

namespace covnoise {

/// Exponential average of the weights over the steps t = 1, 2, ... (train.ema),
///
///   e_t = d_t e_(t-1) + (1 - d_t) theta_t,   d_t = min(decay, t / (t + 9)),   e_0 = theta_0
///
/// The small d_t of the first steps let it forget the initial weights. It has no influence on the training.
class WeightAverage {
 public:
  WeightAverage(FlatParameters& parameters, double decay);

  /// The weights after so many steps.
  void add(std::int64_t steps);
  const at::Tensor& values() const { return average_; }
  /// From a checkpoint, whose network is the average: the parameters hold it, and `trained` are the weights themselves.
  void restore(const at::Tensor& trained);

 private:
  FlatParameters& parameters_;
  double decay_;
  at::Tensor average_;
};

}  // namespace covnoise
