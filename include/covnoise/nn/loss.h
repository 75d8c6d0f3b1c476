#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace covnoise {

/// Cross entropy of each example: -log p(label), [M] from logits [M, classes] and labels [M]. Nothing is averaged over
/// examples. With label smoothing, as in PyTorch: (1 - smoothing) (-log p(label)) + smoothing mean_k (-log p(k)).
at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels, double smoothing = 0);

/// Gives uniform numbers in (0, 1), float64 [M, columns]: those of an example are a function of its index in the batch.
using UniformNumbers = std::function<at::Tensor(std::int64_t columns)>;

/// What a loss function returns for a batch. A tensor of losses is enough: `return losses;`.
struct Losses {
  Losses(at::Tensor values) : values(std::move(values)) {}  // NOLINT(google-explicit-constructor)

  at::Tensor values;   ///< one loss for each example [M]; nothing is averaged over examples
  at::Tensor correct;  ///< which answers are right, bool [M]; undefined for losses without right answers
  /// The losses of labels drawn from the model's own predictions [M] (noise.labels = "model", true-fisher). Empty: the
  /// loss cannot draw labels.
  std::function<at::Tensor(const UniformNumbers& uniform)> of_drawn_labels;
};

/// Cross entropy of logits [M, classes] and labels int64 [M], with label smoothing as PyTorch defines it:
/// (1 - smoothing) (-log p(label)) + smoothing mean_k (-log p_k). Drawn labels are not smoothed.
Losses cross_entropy(const at::Tensor& logits, const at::Tensor& labels, double smoothing = 0);

/// Mean of (prediction - target)^2 over the d outputs of an example; both [M, ...], of the same sizes. That is -log of
/// a normal density of variance d/2 around the prediction, from which targets are drawn.
Losses mean_squared_error(const at::Tensor& predictions, const at::Tensor& targets);

/// Mean over the outputs of an example of -t log p - (1 - t) log(1 - p), p = sigmoid(logit); both [M, ...], of the same
/// sizes, targets in [0, 1]. Drawn targets are 0 or 1, independent for each output.
Losses binary_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace covnoise
