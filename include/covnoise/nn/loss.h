#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// Cross entropy of each example: -log p(label), [M] from logits [M, classes] and labels [M]. Nothing is averaged.
at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace covnoise
