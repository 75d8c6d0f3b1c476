#pragma once
#include "covnoise/ops/philox.h"

#include <ATen/core/Tensor.h>

namespace covnoise {

/// Fills `out` (contiguous, double, float or bfloat16, any shape) with standard normals: element i is normal i of the
/// stream for any number of threads (Box-Muller on pairs of the stream's words).
void fill_normal(const at::Tensor& out, const RandomStream& stream);

/// Fills `out` (float or double) with independent normals of these variances (same size and type): sqrt(variance i)
/// times normal i.
void fill_normal_of_variance(const at::Tensor& out, const at::Tensor& variance, const RandomStream& stream);

/// Fills `out` (float or double) with +1 and -1, element i from word i of the stream.
void fill_signs(const at::Tensor& out, const RandomStream& stream);

/// Fills `out` (float or double) with uniforms in (0, 1), element i from word i of the stream.
void fill_uniform(const at::Tensor& out, const RandomStream& stream);

}  // namespace covnoise
