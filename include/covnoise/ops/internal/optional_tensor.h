#pragma once
#include <ATen/core/Tensor.h>

namespace covnoise {

/// A tensor that may be absent, as operators and autograd functions take it.
using OptionalTensor = c10::optional<at::Tensor>;

inline OptionalTensor if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

inline at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.has_value() ? *tensor : at::Tensor(); }

}  // namespace covnoise
