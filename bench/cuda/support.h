#pragma once
#include "cuda/types.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

// Shared by the checks and timings of the kernels. A check compares with a double reference on the CPU by |a - b| /
// |b|.
namespace covnoise::cuda::bench {

/// Ceilings measured on an H200: copy bandwidth, bf16 products.
constexpr double kBytesPerSecond = 4.3e12, kFlopsPerSecond = 790e12;

template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) {
    check(cudaMalloc(&data_, std::max<std::size_t>(size, 1) * sizeof(T)), "cudaMalloc");
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }
  std::vector<T> download() const {
    std::vector<T> values(size_);
    check(cudaDeviceSynchronize(), "kernel");
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

using Values = std::vector<double>;

inline float rounded(float x, Scalar scalar) {
  return scalar == Scalar::kBFloat16 ? __bfloat162float(__float2bfloat16(x)) : x;
}

/// Normal values that the type can hold, so that the reference sees what the kernel sees.
inline Values random_values(std::size_t size, Scalar scalar, unsigned seed, double offset = 0, double spread = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(static_cast<float>(offset), static_cast<float>(spread));
  Values values(size);
  for (double& value : values) value = rounded(normal(generator), scalar);
  return values;
}

/// A tensor of either type on the device.
struct Tensor {
  Scalar scalar;
  std::size_t size;
  Buffer<std::uint8_t> bytes;

  Tensor(std::size_t n, Scalar type) : scalar(type), size(n), bytes(n * bytes_of(type)) {
    check(cudaMemset(bytes.get(), 0xff, n * bytes_of(type)), "poison");  // NaN in both types
  }
  Tensor(const Values& values, Scalar type) : Tensor(values.size(), type) {
    std::vector<std::uint8_t> host(size * bytes_of(type));
    for (std::size_t i = 0; i < size; ++i) {
      if (type == Scalar::kBFloat16)
        reinterpret_cast<__nv_bfloat16*>(host.data())[i] = __float2bfloat16(static_cast<float>(values[i]));
      else
        reinterpret_cast<float*>(host.data())[i] = static_cast<float>(values[i]);
    }
    check(cudaMemcpy(bytes.get(), host.data(), host.size(), cudaMemcpyHostToDevice), "upload");
  }
  void* get() const { return bytes.get(); }
  Values download() const {
    const auto host = bytes.download();
    Values values(size);
    for (std::size_t i = 0; i < size; ++i)
      values[i] = scalar == Scalar::kBFloat16 ? __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(host.data())[i])
                                              : reinterpret_cast<const float*>(host.data())[i];
    return values;
  }
};

template <class T>
Values as_values(const std::vector<T>& values) {
  return Values(values.begin(), values.end());
}
inline std::vector<float> as_floats(const Values& values) { return std::vector<float>(values.begin(), values.end()); }

/// Counts failures; prints one line per comparison.
class Checker {
 public:
  void compare(const std::string& name, const Values& got, const Values& wanted, double tolerance) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
      norm += wanted[i] * wanted[i];
    }
    error = std::sqrt(error / std::max(norm, 1e-300));
    const bool good = got.size() == wanted.size() && error <= tolerance;
    failures_ += !good;
    ++count_;
    std::printf("%-4s %-86s %9.2e (%.0e)\n", good ? "ok" : "FAIL", name.c_str(), error, tolerance);
    std::fflush(stdout);
  }
  int finish() const {
    std::printf("%d comparisons, %d failed\n", count_, failures_);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  int count_ = 0, failures_ = 0;
};

/// Median milliseconds of one call, from replays of a captured graph of several.
double milliseconds(const std::function<void(cudaStream_t)>& call, int calls = 8, int replays = 7);

/// Random bf16 or float in device memory, about N(0, 1), for timings.
void fill_random(void* data, std::size_t size, Scalar scalar, unsigned seed);

inline void print_header() {
  std::printf("%-34s %-34s %9s %9s %7s %8s %9s\n", "kernel", "shape", "ms", "floor", "ratio", "TB/s", "TFLOP/s");
}
inline void print_row(const std::string& kernel, const std::string& shape, double ms, double bytes, double flops) {
  const double floor = 1e3 * std::max(bytes / kBytesPerSecond, flops / kFlopsPerSecond);
  std::printf("%-34s %-34s %9.4f %9.4f %7.2f %8.2f %9.1f\n", kernel.c_str(), shape.c_str(), ms, floor, ms / floor,
              bytes / ms * 1e-9, flops / ms * 1e-9);
  std::fflush(stdout);
}

void check_weight_gradient(Checker& checker, bool small);
void time_weight_gradient(int examples);
void check_narrow_conv(Checker& checker, bool small);
void time_narrow_conv(int examples);
void check_ghost_norm(Checker& checker, bool small);
void time_ghost_norm(int examples);
void check_norm_sums(Checker& checker, bool small);
void time_norm_sums(int examples);
void check_update(Checker& checker);
void time_update();
void check_augment(Checker& checker);
void time_augment(int examples);

}  // namespace covnoise::cuda::bench
