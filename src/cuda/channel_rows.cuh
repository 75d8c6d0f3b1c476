#pragma once
#include "cuda/types.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <type_traits>

// Iterating over [rows, C] with 16 bytes of channels per thread: a thread keeps its channels and strides over rows.
namespace covnoise::cuda {

constexpr int kRowThreads = 256;

template <class T, int kSize>
struct Channels {
  using Raw = std::conditional_t<kSize == 1, T, uint4>;  ///< as loaded; converted when needed

  static __device__ __forceinline__ Raw load(const T* source) { return *reinterpret_cast<const Raw*>(source); }
  static __device__ __forceinline__ void convert(const Raw& raw, float (&values)[kSize]) {
    const T* elements = reinterpret_cast<const T*>(&raw);
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = static_cast<float>(elements[i]);
  }
  static __device__ __forceinline__ void store(T* target, const float (&values)[kSize]) {
    if constexpr (kSize == 1) {
      *target = static_cast<T>(values[0]);
    } else {
      uint4 bytes;
      T* elements = reinterpret_cast<T*>(&bytes);
#pragma unroll
      for (int i = 0; i < kSize; ++i) elements[i] = static_cast<T>(values[i]);
      *reinterpret_cast<uint4*>(target) = bytes;
    }
  }
};

/// A thread's position in a block that iterates over rows [begin, end) of a ghost batch or of an example.
template <int kSize>
struct RowWalk {
  int lanes, lane, channel;  ///< rows at once, this thread's row among them, its first channel
  bool active;

  __device__ explicit RowWalk(int channels) {
    const int vectors = min(channels / kSize, kRowThreads);
    lanes = kRowThreads / vectors;
    lane = threadIdx.x / vectors;
    channel = (blockIdx.y * vectors + threadIdx.x % vectors) * kSize;
    active = lane < lanes && channel < channels;
  }
};

/// Calls load(k, row) for kBatch rows, then use(k, row) for each of them: several loads are in flight before the first
/// use.
template <int kBatch, class Load, class Use>
__device__ __forceinline__ void for_rows(int row, int end, int step, const Load& load, const Use& use) {
  for (; row + (kBatch - 1) * step < end; row += kBatch * step) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) load(k, row + k * step);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) use(k, row + k * step);
  }
  for (; row < end; row += step) load(0, row), use(0, row);
}

inline unsigned channel_blocks(int channels, int size) {
  return static_cast<unsigned>(divide_up(channels / size, std::min(channels / size, kRowThreads)));
}

/// Calls launch(element, constant) with the element type and the channels per thread: 16 bytes if C is a multiple.
template <class Launch>
void with_vectors(Scalar scalar, int channels, const Launch& launch) {
  if (scalar == Scalar::kBFloat16) {
    if (channels % 8 == 0)
      launch(__nv_bfloat16{}, std::integral_constant<int, 8>{});
    else
      launch(__nv_bfloat16{}, std::integral_constant<int, 1>{});
  } else {
    if (channels % 4 == 0)
      launch(float{}, std::integral_constant<int, 4>{});
    else
      launch(float{}, std::integral_constant<int, 1>{});
  }
}

}  // namespace covnoise::cuda
