#pragma once
#include <c10/core/Device.h>

#include <optional>
#include <string>

namespace covnoise {

/// Which of our kernels a GPU runs. Operators without a kernel use PyTorch's own (ops/portable), with the same results
/// up to rounding.
enum class GpuKernels {
  kNone,     ///< none: built for other architectures, or COVNOISE_KERNELS=portable
  kGeneral,  ///< those without Hopper's instructions: update, random numbers, images, normalisation
  kAll,      ///< also convolutions and weight gradients: Hopper (sm_90)
};

struct GpuInfo {
  std::string name;          ///< "NVIDIA H200"
  std::string cuda;          ///< version of the CUDA runtime, "12.8"
  std::string architecture;  ///< "sm_90"
  GpuKernels kernels = GpuKernels::kNone;

  std::string describe_kernels() const;  ///< in a few words
};

/// Nothing for a CPU.
std::optional<GpuInfo> gpu_info(at::Device device);

/// The kernels for a GPU of this architecture (90: sm_90). `built` lists those that the general kernels were built for
/// ("80,90"), `wanted` is the value of COVNOISE_KERNELS: native, portable, or null for native; any other is an Error.
GpuKernels kernels_for(int architecture, const std::string& built, const char* wanted);

/// An Error if this process may use a part of a GPU's multiprocessors only, because cuBLAS then computes wrong products
/// in bfloat16 (docs/paper.md). `percentage` is the value of CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or null.
void require_whole_gpu(const char* percentage);

}  // namespace covnoise
