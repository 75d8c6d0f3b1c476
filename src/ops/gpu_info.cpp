#include "covnoise/ops/internal/gpu_info.h"

#ifdef COVNOISE_HAS_CUDA
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#endif

namespace covnoise {

#ifdef COVNOISE_HAS_CUDA

std::optional<GpuInfo> gpu_info(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.has_index() ? device.index() : 0));
  int version = 0;  // 12080 for 12.8
  C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return GpuInfo{properties.name, std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
}

#else

std::optional<GpuInfo> gpu_info(at::Device) { return std::nullopt; }

#endif

}  // namespace covnoise
