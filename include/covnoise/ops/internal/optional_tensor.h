#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// A tensor that may be absent, as operators and autograd functions take it.
using OptionalTensor = c10::optional<at::Tensor>;

inline OptionalTensor if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

/// What an operator returns in place of a result that nobody asked for: Python knows no undefined tensors.
inline at::Tensor nothing_like(const at::Tensor& tensor) { return tensor.new_empty({0}); }

inline at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.has_value() ? *tensor : at::Tensor(); }

}  // namespace covnoise
