#pragma once
#include "ops/weight_gradient/weight_gradient_plan.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace covnoise::weight_gradient {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

/// The kernels that this processor can run, the fastest last.
std::vector<InstructionSet> available_instruction_sets();

/// The kernel behind ops/weight_gradient.h: returns the sum of gradients [groups * outputs, channels, kernel] and adds
/// the sum of squares over groups to `squares`, of as many elements. Operands contiguous, sizes already checked.
/// `square_operands`: of x^2 and dz^2.
at::Tensor gradient_squares(const Convolution& convolution, const at::Tensor& x, const at::Tensor& dz,
                            const at::Tensor& squares, std::int64_t examples_per_group, bool square_operands,
                            InstructionSet instruction_set);

}  // namespace covnoise::weight_gradient
