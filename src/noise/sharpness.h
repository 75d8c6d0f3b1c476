#pragma once
#include "covnoise/nn/internal/other_weights.h"

#include <memory>
#include <vector>

namespace covnoise {

/// Sharpness by micro-batch (sharpness-aware minimisation; m-sharpness, Foret et al. 2021): the gradient of
/// micro-batch j is taken where its loss has risen most within the radius rho,
///
///   g = mean_j grad L_j(theta + rho g_j / |g_j|),   g_j = grad L_j(theta)
///
/// to first order.
class Sharpness {
 public:
  Sharpness(const torch::nn::Module& module, FlatParameters& parameters, double rho);

  /// The network with the weights theta + rho g_j / |g_j|, from g_j times any factor, by parameter; undefined ones are
  /// 0. Its buffers will be those of the pass at theta.
  std::unique_ptr<OtherWeights> ascend(const std::vector<at::Tensor>& gradients);

 private:
  FlatParameters& parameters_;
  std::vector<at::Tensor> buffers_;
  double rho_;
};

}  // namespace covnoise
