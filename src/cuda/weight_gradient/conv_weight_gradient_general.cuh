#pragma once
#include "cuda/weight_gradient/conv_weight_gradient.h"
#include "cuda/weight_gradient/conv_weight_gradient_kernel.cuh"

// Any convolution: groups, dilation, any kernel. One thread per weight, straight from memory: correct, not fast.
namespace covnoise::cuda::weight_gradient_detail {

__device__ inline float value_of(float x) { return x; }
__device__ inline float value_of(__nv_bfloat16 x) { return __bfloat162float(x); }

/// grid: x weights, y slices; workspace [slice][sum, squares][kh kw][O][C / groups].
template <class T>
__global__ void __launch_bounds__(128) general_kernel(Convolution c, Work w, Mode mode) {
  const int group_channels = c.channels / c.groups, group_outputs = c.outputs / c.groups;
  const long long weights = static_cast<long long>(c.outputs) * group_channels * c.kernel_height * c.kernel_width;
  const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= weights) return;
  const int channel = static_cast<int>(index % group_channels);
  const int o = static_cast<int>(index / group_channels % c.outputs);
  const int offset = static_cast<int>(index / group_channels / c.outputs);
  const int shift_y = offset / c.kernel_width * c.dilation_height - c.padding_height;
  const int shift_x = offset % c.kernel_width * c.dilation_width - c.padding_width;
  const int full_channel = o / group_outputs * group_channels + channel;
  const T* x = static_cast<const T*>(w.x);
  const T* dz = static_cast<const T*>(w.dz);
  const Slice slice(w, blockIdx.y);
  float acc = 0, sum = 0, squares = 0;
  for (int n = slice.begin; n < slice.end; ++n) {
    for (int row = 0; row < w.out_height; ++row) {
      const int y = row * c.stride_height + shift_y;
      if (y < 0 || y >= c.height) continue;
      for (int column = 0; column < w.out_width; ++column) {
        const int at = column * c.stride_width + shift_x;
        if (at < 0 || at >= c.width) continue;
        const float a =
            value_of(x[((static_cast<long long>(n) * c.height + y) * c.width + at) * c.channels + full_channel]);
        const float d =
            value_of(dz[((static_cast<long long>(n) * w.out_height + row) * w.out_width + column) * c.outputs + o]);
        acc = fmaf(a, d, acc);
        if (mode == Mode::kSpatial) squares = fmaf(a * a, d * d, squares);
      }
    }
    if (mode == Mode::kFlush && (n + 1) % w.examples_per_group == 0) {
      sum += acc;
      squares = fmaf(acc, acc, squares);
      acc = 0;
    }
  }
  float* target = w.workspace + blockIdx.y * weights * (mode == Mode::kPartial ? 1 : 2) + index;
  *target = mode == Mode::kFlush ? sum : acc;
  if (mode != Mode::kPartial) target[weights] = squares;
}

inline void run_general(const WeightGradient& call, const Work& work, Mode mode, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(divide_up<std::size_t>(call.shape.weights(), 128)), work.slices);
  if (call.scalar == Scalar::kBFloat16)
    general_kernel<__nv_bfloat16><<<grid, 128, 0, stream>>>(call.shape, work, mode);
  else
    general_kernel<float><<<grid, 128, 0, stream>>>(call.shape, work, mode);
  check_launch("general weight gradient");
}

}  // namespace covnoise::cuda::weight_gradient_detail
