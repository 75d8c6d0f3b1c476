#include "cuda/channel_rows.cuh"
#include "cuda/weight_gradient/conv_weight_gradient.h"
#include "cuda/weight_gradient/partial_sums.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace covnoise::cuda {
namespace {

constexpr int kThreads = 256;

/// threadIdx.x: neighbouring weights; threadIdx.y: ranges of groups, added in order at the end.
__global__ void __launch_bounds__(kThreads) add_kernel(PartialSums p) {
  __shared__ float shared[2][kThreads];
  const long long weights = static_cast<long long>(p.offsets) * p.outputs * p.channels;
  const long long w = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int groups = p.slices / p.slices_per_group;
  const int begin = static_cast<int>(static_cast<long long>(threadIdx.y) * groups / blockDim.y);
  const int end = static_cast<int>(static_cast<long long>(threadIdx.y + 1) * groups / blockDim.y);
  float sum = 0, squares = 0;
  if (w < weights) {
    const float* at = p.workspace + w + static_cast<long long>(begin) * p.slices_per_group * p.components * weights;
    if (p.components == 2) {
#pragma unroll 8
      for (int s = begin; s < end; ++s, at += 2 * weights) sum += at[0], squares += at[weights];
    } else if (p.slices_per_group == 1) {
#pragma unroll 8
      for (int s = begin; s < end; ++s, at += weights) sum += at[0], squares = fmaf(at[0], at[0], squares);
    } else {
      for (int g = begin; g < end; ++g) {
        float group = 0;
#pragma unroll 8
        for (int s = 0; s < p.slices_per_group; ++s, at += weights) group += at[0];
        sum += group;
        squares = fmaf(group, group, squares);
      }
    }
  }
  const int self = threadIdx.y * blockDim.x + threadIdx.x;
  shared[0][self] = sum;
  shared[1][self] = squares;
  __syncthreads();
  if (threadIdx.y != 0 || w >= weights) return;
  for (unsigned y = 1; y < blockDim.y; ++y) {
    sum += shared[0][y * blockDim.x + threadIdx.x];
    squares += shared[1][y * blockDim.x + threadIdx.x];
  }
  const long long plane = static_cast<long long>(p.outputs) * p.channels;
  const long long target = (w % plane) * p.offsets + w / plane;
  p.sums[target] = p.add_sums ? p.sums[target] + sum : sum;
  if (p.squares) p.squares[target] += squares;
}

/// Sums over the lanes of a warp, in every lane.
template <int kSize>
__device__ __forceinline__ void add_lanes(float (&values)[kSize]) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] += __shfl_xor_sync(~0u, values[i], distance);
}

constexpr int kBiasWarps = 32;

/// Sums over rows of dz [rows, O] and the squares of sums of `group` consecutive rows. A block has kSize outputs (16
/// bytes, or 1), a warp every 32nd group: a single launch, which adds the warps in order.
template <class T, int kSize>
__global__ void __launch_bounds__(32 * kBiasWarps)
    bias_kernel(const T* dz, int rows, int outputs, int group, float* gradient, float* squares) {
  __shared__ float shared[2][kBiasWarps][kSize];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * kSize;
  float sum[kSize] = {}, square[kSize] = {}, values[kSize];
  const auto read = [&](int row) {
    Channels<T, kSize>::convert(Channels<T, kSize>::load(dz + static_cast<long long>(row) * outputs + first), values);
  };
  if (group == 1) {
#pragma unroll 4
    for (int row = threadIdx.x; row < rows; row += 32 * kBiasWarps) {
      read(row);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum[i] += values[i], square[i] = fmaf(values[i], values[i], square[i]);
    }
    add_lanes(sum), add_lanes(square);
  } else {
    for (int begin = warp * group; begin < rows; begin += kBiasWarps * group) {
      float of_group[kSize] = {};
#pragma unroll 4
      for (int row = begin + lane; row < begin + group; row += 32) {
        read(row);
#pragma unroll
        for (int i = 0; i < kSize; ++i) of_group[i] += values[i];
      }
      add_lanes(of_group);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum[i] += of_group[i], square[i] = fmaf(of_group[i], of_group[i], square[i]);
    }
  }
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) shared[0][warp][i] = sum[i], shared[1][warp][i] = square[i];
  }
  __syncthreads();
  if (threadIdx.x >= kSize) return;
  float total = 0, total_square = 0;
  for (int w = 0; w < kBiasWarps; ++w) total += shared[0][w][threadIdx.x], total_square += shared[1][w][threadIdx.x];
  gradient[first + threadIdx.x] = total;
  squares[first + threadIdx.x] += total_square;
}

}  // namespace

void add_partial_sums(const PartialSums& partial, cudaStream_t stream) {
  const long long weights = static_cast<long long>(partial.offsets) * partial.outputs * partial.channels;
  const int groups = partial.slices / partial.slices_per_group;
  int ranges = 1;
  while (ranges < 32 && ranges * 4 <= groups && weights * ranges < 1 << 18) ranges *= 2;
  const dim3 block(kThreads / ranges, ranges);
  add_kernel<<<static_cast<unsigned>(divide_up<long long>(weights, block.x)), block, 0, stream>>>(partial);
  check_launch("add_partial_sums");
}

void bias_gradient(const void* dz, Scalar scalar, int rows, int outputs, int rows_per_group, float* gradient,
                   float* squares, cudaStream_t stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(dz) % 16 == 0;
  with_vectors(scalar, aligned ? outputs : 1, [&](auto element, auto size) {
    using T = decltype(element);
    constexpr int kSize = decltype(size)::value;
    bias_kernel<T, kSize><<<outputs / kSize, 32 * kBiasWarps, 0, stream>>>(static_cast<const T*>(dz), rows, outputs,
                                                                           rows_per_group, gradient, squares);
    check_launch("bias gradient");
  });
}

}  // namespace covnoise::cuda
