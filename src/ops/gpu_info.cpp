#include "covnoise/ops/internal/gpu_info.h"

#include "covnoise/core/error.h"

#include <cstdlib>
#include <sstream>

#ifdef COVNOISE_HAS_CUDA
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#endif

namespace covnoise {

/// A GPU runs code that was built for its own or an earlier minor version of its architecture.
GpuKernels kernels_for(int architecture, const std::string& built, const char* wanted) {
  const std::string choice = wanted ? wanted : "native";
  require(choice == "native" || choice == "portable",
          "COVNOISE_KERNELS=" + choice + " is not known; known: native, portable");
  if (choice == "portable") return GpuKernels::kNone;
  std::istringstream list(built);
  for (std::string item; std::getline(list, item, ',');) {
    const int known = std::atoi(item.c_str());
    if (known / 10 != architecture / 10 || known > architecture) continue;
    return architecture == 90 ? GpuKernels::kAll : GpuKernels::kGeneral;
  }
  return GpuKernels::kNone;
}

void require_whole_gpu(const char* percentage) {
  if (percentage == nullptr || *percentage == '\0' || std::atof(percentage) >= 100) return;
  throw Error(std::string("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=") + percentage +
              ": on a part of a GPU's multiprocessors cuBLAS computes wrong products in bfloat16; unset it");
}

std::string GpuInfo::describe_kernels() const {
  switch (kernels) {
    case GpuKernels::kAll:
      return "covnoise's kernels";
    case GpuKernels::kGeneral:
      return "covnoise's kernels for update, noise, images and normalisation; PyTorch's operators for convolutions and "
             "weight gradients";
    default:
      return "PyTorch's operators";
  }
}

#ifdef COVNOISE_HAS_CUDA

std::optional<GpuInfo> gpu_info(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.has_index() ? device.index() : 0));
  int version = 0;  // 12080 for 12.8
  C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
  const int architecture = properties.major * 10 + properties.minor;
  return GpuInfo{properties.name, std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10),
                 "sm_" + std::to_string(architecture),
                 kernels_for(architecture, COVNOISE_CUDA_ARCHITECTURES, std::getenv("COVNOISE_KERNELS"))};
}

#else

std::optional<GpuInfo> gpu_info(at::Device) { return std::nullopt; }

#endif

}  // namespace covnoise
