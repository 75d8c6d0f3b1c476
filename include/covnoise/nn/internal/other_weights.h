#pragma once
#include "covnoise/nn/flat_parameters.h"

#include <utility>
#include <vector>

namespace covnoise {

/// |x|, to divide x by: at least float's smallest number, so that zeros, which have no direction, stay zeros.
at::Tensor length_of(const at::Tensor& x);

/// During its lifetime a network has other weights; afterwards its own, bit for bit, and `buffers` (running statistics)
/// have the values from before. Copies, not differences, bring them back. Nothing waits for a device, so that a pass at
/// the other weights can be captured.
class OtherWeights {
 public:
  /// `weights` have the layout of `parameters`; undefined: the network keeps its own.
  OtherWeights(FlatParameters& parameters, const at::Tensor& weights, std::vector<at::Tensor> buffers = {});
  ~OtherWeights();
  OtherWeights(const OtherWeights&) = delete;
  OtherWeights& operator=(const OtherWeights&) = delete;

  const at::Tensor& own() const { return own_; }  ///< undefined where the network keeps them

 private:
  at::Tensor values_, own_;
  std::vector<at::Tensor> buffers_, before_;               // floating-point buffers, and their values before
  std::vector<std::pair<at::Tensor, at::Tensor>> others_;  // bool and integer ones, with their values before
};

}  // namespace covnoise
