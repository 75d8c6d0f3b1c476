#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/nn/model_zoo.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace covnoise {

/// Folds every batch normalisation into the convolution before it, for evaluation mode: the convolution's weight
/// becomes W gamma / sqrt(var + eps), and the normalisation keeps only the shift beta - mean gamma / sqrt(var + eps).
/// Predictions stay the same; scaling a normalised layer's weights no longer matters. Returns the parameters that are
/// left, without the scales. An Error if a normalisation has no convolution of its width right before it in the order
/// of registration.
std::vector<at::Tensor> fold_batch_norm(torch::nn::Module& module);

/// The T that minimises the cross entropy of softmax(logits / T): Newton's method on 1 / T, in which it is convex.
/// Limited to 1e-3..1e3: if the logits are always right, or carry no information, there is no minimum.
double calibrated_temperature(const at::Tensor& logits, const at::Tensor& labels);

/// Products with the Hessian of the mean loss over a set of examples. The graphs of the first derivatives are kept as
/// far as the memory limit allows: a product with a kept graph costs two gradients, one without three.
class HessianProduct {
 public:
  /// Examples whose graph is built at once.
  struct Slice {
    at::Tensor images, labels;
  };
  /// Sum of the losses of a slice, from plain, twice differentiable operators.
  using LossSum = std::function<at::Tensor(const Slice&)>;

  HessianProduct(std::vector<at::Tensor> parameters, std::vector<Slice> slices, LossSum loss_sum,
                 std::int64_t memory_limit);

  /// H v for v [dimension], in the precision of the parameters.
  at::Tensor operator()(const at::Tensor& v);

  std::int64_t dimension() const { return dimension_; }
  std::int64_t examples() const { return examples_; }
  at::TensorOptions options() const { return parameters_.front().options().requires_grad(false); }
  std::int64_t kept() const { return static_cast<std::int64_t>(graphs_.size()); }  ///< slices whose graph is kept
  std::function<void()> after_slice = [] {};                                       ///< for a progress bar

 private:
  using Gradients = std::vector<at::Tensor>;
  Gradients gradients(const Slice& slice) const;
  Gradients kept_or_new(std::size_t slice);

  std::vector<at::Tensor> parameters_;
  std::vector<Slice> slices_;
  LossSum loss_sum_;
  std::int64_t memory_limit_, memory_used_ = 0;
  std::int64_t dimension_ = 0, examples_ = 0;
  std::vector<Gradients> graphs_;  // of the first slices
};

}  // namespace covnoise
