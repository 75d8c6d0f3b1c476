#include "cuda/kernel_choice.h"

#include <ATen/ATen.h>

#include <mutex>
#include <unordered_map>

namespace covnoise::cuda {

/// Asked once per GPU, because it is asked before every launch.
GpuKernels kernels_of(at::Device device) {
  static std::mutex one_at_a_time;
  static std::unordered_map<at::Device, GpuKernels> known;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  return known.emplace(device, gpu_info(device)->kernels).first->second;
}

GpuKernels kernels_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kDouble) return GpuKernels::kNone;
  return kernels_of(tensor.device());
}

}  // namespace covnoise::cuda
