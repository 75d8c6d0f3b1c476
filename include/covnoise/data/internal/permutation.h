#pragma once
#include "covnoise/ops/philox.h"

#include <ATen/core/Tensor.h>

namespace covnoise {

/// A random permutation of 0 .. count - 1, int64 on the CPU.
at::Tensor permutation(const RandomStream& stream, std::int64_t count);

}  // namespace covnoise
