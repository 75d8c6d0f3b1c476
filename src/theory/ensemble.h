#pragma once
#include "covnoise/ops/random.h"

#include <ATen/core/Tensor.h>
#include <torch/types.h>

namespace covnoise::theory {

/// Many trajectories of theta <- K theta + N xi at once, theta [d, n]. theta and xi are the halves of one matrix
/// [2 d, n], so that a step is one product with [K, N]; it writes into a second such matrix, and the two change places.
class Ensemble {
 public:
  Ensemble(const at::Tensor& theta_0, std::int64_t trajectories, at::ScalarType dtype = at::kDouble)
      : dimension_(theta_0.numel()) {
    for (auto& half : halves_) half = at::empty({2 * dimension_, trajectories}, dtype);
    theta().copy_(theta_0.unsqueeze(1).expand({dimension_, trajectories}));
  }

  at::Tensor theta() const { return halves_[current_].narrow(0, 0, dimension_); }

  /// xi are the numbers of `stream`.
  void step(const at::Tensor& keep, const at::Tensor& noise, const RandomStream& stream) {
    fill_normal(halves_[current_].narrow(0, dimension_, dimension_), stream);
    at::Tensor next = halves_[1 - current_].narrow(0, 0, dimension_);
    at::mm_out(next, at::cat({keep, noise}, 1).to(next.scalar_type()), halves_[current_]);
    current_ = 1 - current_;
  }

 private:
  std::int64_t dimension_;
  at::Tensor halves_[2];
  int current_ = 0;
};

}  // namespace covnoise::theory
