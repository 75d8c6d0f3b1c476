#pragma once
#include "covnoise/ops/internal/gpu_info.h"

#include <ATen/core/Tensor.h>

namespace covnoise::cuda {

/// The kernels of this GPU.
GpuKernels kernels_of(at::Device device);
/// The kernels for tensors like this one; none in double precision. Otherwise PyTorch's operators (ops/portable).
GpuKernels kernels_of(const at::Tensor& tensor);

/// Whether the kernels without Hopper's instructions take such tensors.
inline bool has_general_kernels(const at::Tensor& tensor) { return kernels_of(tensor) != GpuKernels::kNone; }
/// The same for convolutions and weight gradients.
inline bool has_hopper_kernels(const at::Tensor& tensor) { return kernels_of(tensor) == GpuKernels::kAll; }

}  // namespace covnoise::cuda
