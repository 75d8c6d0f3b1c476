#include "train/loop/weight_average.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace covnoise {

WeightAverage::WeightAverage(FlatParameters& parameters, double decay)
    : parameters_(parameters), decay_(decay), average_(parameters.values().detach().clone()) {}

void WeightAverage::add(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  const double t = static_cast<double>(steps);
  average_.lerp_(parameters_.values(), 1 - std::min(decay_, t / (t + 9)));
}

void WeightAverage::restore(const at::Tensor& trained) {
  const at::NoGradGuard no_grad;
  average_.copy_(parameters_.values());
  parameters_.values().copy_(trained);
}

}  // namespace covnoise
