#pragma once
#include "ops/weight_gradient/weight_gradient_plan.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace covnoise::weight_gradient {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

/// The kernels that this processor can run, the fastest last.
std::vector<InstructionSet> available_instruction_sets();

/// The kernel behind ops/weight_gradient.h: the sum of gradients [groups * outputs, channels, kernel]. Operands
/// contiguous, sizes already checked.
at::Tensor gradient(const Convolution& convolution, const at::Tensor& x, const at::Tensor& dz,
                    InstructionSet instruction_set);

constexpr std::int64_t kEachPosition = 0;

/// The same, and adds squares to `squares`, of as many elements: the sum over groups of their squared sums, or, with
/// kEachPosition for `examples_per_group`, the sum of x^2 dz^2.
at::Tensor gradient_squares(const Convolution& convolution, const at::Tensor& x, const at::Tensor& dz,
                            const at::Tensor& squares, std::int64_t examples_per_group, InstructionSet instruction_set);

/// Whether conv2d_gradient is faster than the library's weight gradient of a plain convolution: a rule by type, layout
/// and shape alone, so that a run repeats bit for bit (measured: docs/performance.md).
bool faster_than_library(const at::Tensor& x, at::IntArrayRef weight_sizes, std::int64_t groups);

/// The weight gradient of a plain convolution: any strides, sizes are checked.
at::Tensor conv2d_gradient(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                           at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                           std::int64_t groups);

}  // namespace covnoise::weight_gradient
