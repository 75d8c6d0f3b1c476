#pragma once
#include "covnoise/ops/philox.h"

#include <torch/csrc/autograd/variable.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace covnoise {

/// Which squares of gradient contributions the passes add up for each parameter (design of the estimators:
/// docs/noise.md). With g_i the contribution of example i to the gradient of the *sum* of the losses:
enum class Squares {
  kNone,
  kExact,    ///< sum_i g_i^2, positions of a convolution summed before squaring
  kGhost,    ///< sum_j (sum of g_i over group j)^2, groups of consecutive examples
  kSpatial,  ///< as kExact, except for a convolution: sum_i sum_t a_t^2 Dz_t^2, without the cross terms of positions
  kMicro,    ///< sum_j (gradient of micro-batch j)^2, of the gradients themselves: for any layer, and never by a layer
};

/// Whether the diagonal from these squares is that of the covariance, not of F itself.
inline bool centred(Squares squares) { return squares == Squares::kGhost || squares == Squares::kMicro; }

/// What to collect in the next backward pass.
struct LayerRequest {
  Squares squares = Squares::kNone;  ///< which squares to add up
  bool kronecker = false;  ///< of each linear and convolution layer the factor G, and a draw from the factor A
  bool gram = false;       ///< Gram matrix and fourth powers of the per-example gradients
  std::int64_t group = 0;  ///< examples per group, for kGhost
  RandomStream normals{};  ///< the xi of the layer's examples, for `kronecker`
  bool any() const { return squares != Squares::kNone || kronecker || gram; }
};

/// The calls of one layer in one pass. A layer that is called once has its statistics in its backward. The backward of
/// one that is called several times keeps each call's operands until the last: the contributions of an example are
/// added over calls before they are squared.
struct LayerCalls : torch::CustomClassHolder {
  std::int64_t count = 0;       ///< in the forward pass
  std::int64_t received = 0;    ///< in the backward pass so far
  bool backward_began = false;  ///< whether a backward pass has reached the layer: a later call is another pass's
  std::vector<at::Tensor> kept, more;  ///< of the calls received: inputs and derivatives, or contributions to the
                                       ///< gradients of weight and bias
};

/// What one layer adds to in its backward. Shared by the layer, the autograd graph and whoever asked; tensors that were
/// not asked for are undefined. All are sums over examples and add up over micro-batches.
struct LayerRecord : torch::CustomClassHolder {
  LayerRequest request;       ///< what the next backward pass adds
  std::string name;           ///< of the layer, for messages
  at::Tensor weight_squares;  ///< shape of the weight
  at::Tensor bias_squares;    ///< shape of the bias
  at::Tensor output_factor;   ///< G, sum_i sum_t Dz Dz^T  [I, I]
  at::Tensor weight_draw;     ///< sum_i sum_t xi a^T, xi [I] standard normal, another one for each i and t
  at::Tensor bias_draw;       ///< sum_i sum_t xi: the bias is one more input equal to 1
  std::int64_t first = 0;     ///< place in the large batch of the pass's first example, whose xi are those of the place
  /// Of the pass; each has the same number of consecutive rows of the layer's input, one unless a sequence is folded
  /// into the first dimension. 0: every row is an example.
  std::int64_t examples = 0;
  std::int64_t positions = 1;  ///< |T|: output positions of an example: of a convolution, or of a sequence; otherwise 1
  c10::intrusive_ptr<LayerCalls> calls;  ///< of the current forward pass
  at::Tensor gram;                       ///< [M, M] of this micro-batch, added into
  at::Tensor fourth_powers;              ///< sum over examples and parameters of g^4, one number
};

/// A layer that can account for each example. Its parameters are `weight` and, where there is one, `bias`. While it has
/// a record whose request asks for anything, its forward goes through an autograd function that fills the record in the
/// backward; otherwise through plain, twice differentiable operators.
class AccountedLayer {
 public:
  virtual ~AccountedLayer() = default;
  virtual at::Tensor weight_parameter() const = 0;
  virtual at::Tensor bias_parameter() const = 0;  ///< undefined where there is none
  virtual bool has_kronecker_factors() const { return true; }
  void set_record(c10::intrusive_ptr<LayerRecord> record) { record_ = std::move(record); }
  const c10::intrusive_ptr<LayerRecord>& record() const { return record_; }

 private:
  c10::intrusive_ptr<LayerRecord> record_;
};

}  // namespace covnoise
