#pragma once
#include "ops/weight_gradient_plan.h"

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

namespace covnoise::weight_gradient {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

/// Those of this processor, the fastest last.
std::vector<InstructionSet> available_instruction_sets();

/// The kernel behind ops/weight_gradient.h: (sum of gradients, sum of squares over groups), both [groups * outputs,
/// channels, kernel]. x and dz contiguous, sizes already checked. `square_operands`: of x^2 and dz^2.
std::tuple<at::Tensor, at::Tensor> gradient_squares(const Convolution& convolution, const at::Tensor& x,
                                                    const at::Tensor& dz, std::int64_t examples_per_group,
                                                    bool square_operands, InstructionSet instruction_set);

}  // namespace covnoise::weight_gradient
