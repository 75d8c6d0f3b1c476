#pragma once
#include <c10/core/Device.h>

#include <optional>
#include <string>

namespace covnoise {

struct GpuInfo {
  std::string name;  ///< "NVIDIA H200"
  std::string cuda;  ///< version of the CUDA runtime, "12.8"
};

/// Nothing for a CPU.
std::optional<GpuInfo> gpu_info(at::Device device);

}  // namespace covnoise
