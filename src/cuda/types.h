#pragma once
#include <cuda_runtime_api.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

// Shared by the host code of the CUDA kernels. Needs no LibTorch.
namespace covnoise::cuda {

/// Type of activations. kFloat32 multiplies in tf32 or, if a call is `precise`, in three tf32 products per product
/// (error near 1e-6). Sums are float32 throughout.
enum class Scalar { kBFloat16, kFloat32 };

constexpr int kMostShared = 227 * 1024;  ///< bytes of shared memory that a block can have on sm_90

inline int bytes_of(Scalar scalar) { return scalar == Scalar::kBFloat16 ? 2 : 4; }

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Call it after every launch: errors of the launch itself (a wrong grid, too much shared memory) are reported at once.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

inline int multiprocessors() {
  static const int count = [] {
    int device = 0, number = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, device), "multiprocessor count");
    return number;
  }();
  return count;
}

/// Blocks of `kernel` that one multiprocessor holds; also allows the kernel that much shared memory. Queried once per
/// size, because planning a call must cost less than launching it.
inline int occupancy_of(const void* kernel, int threads, int shared_bytes) {
  static thread_local std::map<std::pair<const void*, int>, int> known;
  int& blocks = known[{kernel, shared_bytes}];
  if (blocks > 0) return blocks;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared), "shared memory");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        "shared memory");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes), "occupancy");
  if (blocks < 1) throw std::runtime_error("a block needs more than a multiprocessor has");
  return blocks;
}

template <class T>
constexpr T divide_up(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace covnoise::cuda
