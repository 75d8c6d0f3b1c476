#include "cuda/conv_weight_gradient.h"
#include "cuda/partial_sums.h"

#include <cuda_bf16.h>

#include <algorithm>

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
  p.sums[target] += sum;
  if (p.squares) p.squares[target] += squares;
}

__device__ float as_float(float x) { return x; }
__device__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }

constexpr int kColumns = 64;

/// Sums of `rows` consecutive rows of dz [., O], or of their squares: out [slices][O]. A block is one slice and 64
/// outputs.
template <class T>
__global__ void __launch_bounds__(kThreads)
    row_sums(const T* dz, long long rows, long long all_rows, int outputs, bool squared, float* out) {
  __shared__ float shared[kThreads];
  const int o = blockIdx.y * kColumns + threadIdx.x % kColumns;
  const long long first = blockIdx.x * rows, end = min(first + rows, all_rows);
  float sum = 0;
  if (o < outputs)
    for (long long r = first + threadIdx.x / kColumns; r < end; r += kThreads / kColumns) {
      const float value = as_float(dz[r * outputs + o]);
      sum += squared ? value * value : value;
    }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kColumns || o >= outputs) return;
  for (int r = 1; r < kThreads / kColumns; ++r) sum += shared[r * kColumns + threadIdx.x];
  out[static_cast<long long>(blockIdx.x) * outputs + o] = sum;
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

void bias_gradient(const void* dz, Scalar scalar, int examples, int positions, int outputs, GradientSquares squares_of,
                   int examples_per_group, float* workspace, float* gradient, float* squares, cudaStream_t stream) {
  const bool one_row = examples_per_group == 1 && positions == 1;  // whose square is that of an element
  const bool grouped = squares_of == GradientSquares::kGroups && !one_row;
  const long long all_rows = static_cast<long long>(examples) * positions;
  const long long rows = grouped ? static_cast<long long>(examples_per_group) * positions
                                 : std::max<long long>(divide_up<long long>(all_rows, 64), positions);
  const int slices = static_cast<int>(divide_up(all_rows, rows));
  const auto sums = [&](bool squared, float* target, float* target_squares) {
    const dim3 grid(slices, divide_up(outputs, kColumns));
    if (scalar == Scalar::kBFloat16)
      row_sums<<<grid, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(dz), rows, all_rows, outputs, squared,
                                              workspace);
    else
      row_sums<<<grid, kThreads, 0, stream>>>(static_cast<const float*>(dz), rows, all_rows, outputs, squared,
                                              workspace);
    check_launch("bias gradient");
    add_partial_sums({workspace, slices, 1, 1, 1, outputs, 1, target, target_squares}, stream);
  };
  sums(false, gradient, grouped ? squares : nullptr);
  if (squares_of != GradientSquares::kNone && !grouped) sums(true, squares, nullptr);
}

}  // namespace covnoise::cuda
