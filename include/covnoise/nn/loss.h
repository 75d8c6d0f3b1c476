#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// Cross entropy of each example: -log p(label), [M] from logits [M, classes] and labels [M]. Nothing is averaged over
/// examples. With label smoothing, as in PyTorch: (1 - smoothing) (-log p(label)) + smoothing mean_k (-log p(k)).
at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels, double smoothing = 0);

}  // namespace covnoise
