#pragma once
#include "covnoise/nn/flat_parameters.h"

#include <vector>

namespace covnoise {

/// Sharpness by micro-batch (sharpness-aware minimisation; m-sharpness, Foret et al. 2021): the gradient of
/// micro-batch j is taken where its loss has risen most within the radius rho,
///
///   g = mean_j grad L_j(theta + rho g_j / |g_j|),   g_j = grad L_j(theta)
///
/// to first order. Buffers are made once and nothing waits for a device, so that the passes can be captured.
class Sharpness {
 public:
  Sharpness(const torch::nn::Module& module, FlatParameters& parameters, double rho);

  /// g_j times any factor, by parameter; undefined ones are 0.
  void set_ascent(const std::vector<at::Tensor>& gradients);

  /// During its lifetime the network has the weights theta + rho g_j / |g_j|; afterwards theta, bit for bit. Buffers
  /// of the network, such as running statistics, are restored with them: those of the pass at theta remain.
  class InNetwork {
   public:
    explicit InNetwork(Sharpness& sharpness);
    ~InNetwork();
    InNetwork(const InNetwork&) = delete;
    InNetwork& operator=(const InNetwork&) = delete;

   private:
    Sharpness& sharpness_;
    std::vector<at::Tensor> buffers_;  // as they were
  };

 private:
  FlatParameters& parameters_;
  std::vector<at::Tensor> buffers_;
  double rho_;
  at::Tensor ascent_, weights_;  // weights_: theta while the network has others
};

}  // namespace covnoise
