#pragma once
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

// What the raw CUDA kernels share on the host. Nothing here needs torch.
namespace covnoise::cuda {

/// Type of activations. kFloat32 multiplies in tf32 or, where a call says `precise`, in three tf32 products per product
/// (error near 1e-6). Sums are float32 throughout.
enum class Scalar { kBFloat16, kFloat32 };

inline int bytes_of(Scalar scalar) { return scalar == Scalar::kBFloat16 ? 2 : 4; }

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// After every launch: an error of the launch itself (a wrong grid, too much shared memory) does not wait.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

inline int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "multiprocessor count");
  return count;
}

template <class T>
constexpr T divide_up(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace covnoise::cuda
