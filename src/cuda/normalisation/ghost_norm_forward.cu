#include "cuda/channel_rows.cuh"
#include "cuda/normalisation/ghost_norm.h"
#include "cuda/normalisation/moments.cuh"

namespace covnoise::cuda {
namespace {

constexpr int kBatch = 4;

/// grid: x = ghost batch * parts + part, y = blocks of channels.
template <class T, int kSize>
__global__ void __launch_bounds__(kRowThreads) partials_kernel(const T* x, int rows, int channels, GhostPartials out) {
  __shared__ float mean[kSize][kRowThreads], m2[kSize][kRowThreads], number[kRowThreads];
  const RowWalk<kSize> walk(channels);
  const int part = blockIdx.x % out.parts;
  x += static_cast<long long>(blockIdx.x / out.parts) * rows * channels + walk.channel;
  const int begin = static_cast<int>(static_cast<long long>(part) * rows / out.parts);
  const int end = static_cast<int>(static_cast<long long>(part + 1) * rows / out.parts);
  float shift[kSize] = {}, sum[kSize] = {}, squares[kSize] = {};
  int count = 0;
  if (walk.active && begin + walk.lane < end) {
    using C = Channels<T, kSize>;
    typename C::Raw raw[kBatch];
    C::convert(C::load(x + static_cast<long long>(begin + walk.lane) * channels), shift);
    for_rows<kBatch>(
        begin + walk.lane, end, walk.lanes,
        [&](int k, int row) { raw[k] = C::load(x + static_cast<long long>(row) * channels); },
        [&](int k, int) {
          float values[kSize];
          C::convert(raw[k], values);
#pragma unroll
          for (int i = 0; i < kSize; ++i) {
            const float d = values[i] - shift[i];
            sum[i] += d;
            squares[i] = fmaf(d, d, squares[i]);
          }
          ++count;
        });
  }
  number[threadIdx.x] = static_cast<float>(count);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const Moments m = moments_of(static_cast<float>(count), shift[i], sum[i], squares[i]);
    mean[i][threadIdx.x] = m.mean, m2[i][threadIdx.x] = m.m2;
  }
  __syncthreads();
  const int vectors = min(channels / kSize, kRowThreads);
  for (int half = kRowThreads / 2; half > 0; half /= 2) {
    const int other = threadIdx.x + half * vectors;
    const bool joins = walk.lane < half && walk.lane + half < walk.lanes;
    if (joins) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        Moments m{number[threadIdx.x], mean[i][threadIdx.x], m2[i][threadIdx.x]};
        m.join({number[other], mean[i][other], m2[i][other]});
        mean[i][threadIdx.x] = m.mean, m2[i][threadIdx.x] = m.m2;
      }
      number[threadIdx.x] += number[other];
    }
    __syncthreads();
  }
  if (!walk.active || walk.lane != 0) return;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    out.mean[static_cast<long long>(blockIdx.x) * channels + walk.channel + i] = mean[i][threadIdx.x];
    out.m2[static_cast<long long>(blockIdx.x) * channels + walk.channel + i] = m2[i][threadIdx.x];
  }
  if (walk.channel == 0) out.count[blockIdx.x] = number[threadIdx.x];
}

/// One ghost batch (blockIdx.x) and 32 channels (blockIdx.y): joins the pieces in order.
template <int kRanges>
__global__ void __launch_bounds__(32 * kRanges) finish_kernel(GhostPartials p, int channels, const float* weight,
                                                              const float* bias, float eps, GhostStatistics out) {
  __shared__ Moments shared[kRanges][32];
  const int c = blockIdx.y * 32 + threadIdx.x, first = blockIdx.x * p.parts;
  Moments m{0, 0, 0};
  if (c < channels) {
#pragma unroll 4
    for (int part = first + threadIdx.y; part < first + p.parts; part += kRanges) {
      const long long at = static_cast<long long>(part) * channels + c;
      m.join({p.count[part], p.mean[at], p.m2[at]});
    }
  }
  shared[threadIdx.y][threadIdx.x] = m;
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
  for (int y = 1; y < kRanges; ++y) m.join(shared[y][threadIdx.x]);
  const int index = blockIdx.x * channels + c;
  const float variance = m.m2 / m.count, rstd = 1 / sqrtf(variance + eps), scale = weight[c] * rstd;
  out.mean[index] = m.mean;
  out.rstd[index] = rstd;
  if (out.variance) out.variance[index] = variance;
  out.scale[index] = scale;
  out.shift[index] = fmaf(-m.mean, scale, bias[c]);
}

__global__ void running_kernel(const float* mean, const float* variance, int ghosts, int channels, float correction,
                               float momentum, float* running_mean, float* running_variance) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float m = running_mean[c], v = running_variance[c];
#pragma unroll 8
  for (int g = 0; g < ghosts; ++g) {
    m = (1 - momentum) * m + momentum * mean[g * channels + c];
    v = (1 - momentum) * v + momentum * correction * variance[g * channels + c];
  }
  running_mean[c] = m, running_variance[c] = v;
}

/// grid as above, `parts` pieces of each ghost batch.
template <class T, int kSize, bool kRelu, bool kResidual>
__global__ void __launch_bounds__(kRowThreads)
    apply_kernel(const T* __restrict__ x, const T* __restrict__ residual, int rows, int channels, int parts,
                 GhostStatistics s, T* __restrict__ y) {
  const RowWalk<kSize> walk(channels);
  if (!walk.active) return;
  const int ghost = blockIdx.x / parts, part = blockIdx.x % parts;
  const int begin = static_cast<int>(static_cast<long long>(part) * rows / parts);
  const int end = static_cast<int>(static_cast<long long>(part + 1) * rows / parts);
  float scale[kSize], shift[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    scale[i] = s.scale[ghost * channels + walk.channel + i];
    shift[i] = s.shift[ghost * channels + walk.channel + i];
  }
  const long long first = static_cast<long long>(ghost) * rows * channels + walk.channel;
  using C = Channels<T, kSize>;
  typename C::Raw raw[kBatch], raw_residual[kBatch];
  for_rows<kBatch>(
      begin + walk.lane, end, walk.lanes,
      [&](int k, int row) {
        const long long at = first + static_cast<long long>(row) * channels;
        raw[k] = C::load(x + at);
        if constexpr (kResidual) raw_residual[k] = C::load(residual + at);
      },
      [&](int k, int row) {
        float values[kSize], added[kSize];
        C::convert(raw[k], values);
        if constexpr (kResidual) C::convert(raw_residual[k], added);
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          values[i] = fmaf(values[i], scale[i], shift[i]);
          if constexpr (kResidual) values[i] += added[i];
          if constexpr (kRelu) values[i] = fmaxf(values[i], 0.0f);
        }
        C::store(y + first + static_cast<long long>(row) * channels, values);
      });
}

int rows_of(const GhostShape& shape) { return shape.ghost_batch * shape.positions; }

}  // namespace

int ghost_norm_parts(const GhostShape& shape) {
  const long long pieces = static_cast<long long>(rows_of(shape)) * shape.channels / 16384;
  return static_cast<int>(std::clamp<long long>(8 * multiprocessors() / shape.ghosts(), 1, std::max(1ll, pieces)));
}

void ghost_norm_partials(const GhostShape& shape, const void* x, const GhostPartials& out, cudaStream_t stream) {
  with_vectors(shape.scalar, shape.channels, [&](auto element, auto size) {
    using T = decltype(element);
    partials_kernel<T, size.value>
        <<<dim3(shape.ghosts() * out.parts, channel_blocks(shape.channels, size.value)), kRowThreads, 0, stream>>>(
            static_cast<const T*>(x), rows_of(shape), shape.channels, out);
  });
  check_launch("ghost_norm_partials");
}

void ghost_norm_finish(const GhostShape& shape, const GhostPartials& partials, const float* weight, const float* bias,
                       float eps, const GhostStatistics& out, cudaStream_t stream) {
  const auto launch = [&](auto kernel, int ranges) {
    kernel<<<dim3(shape.ghosts(), divide_up(shape.channels, 32)), dim3(32, ranges), 0, stream>>>(
        partials, shape.channels, weight, bias, eps, out);
  };
  shape.ghosts() == 1 ? launch(finish_kernel<32>, 32) : launch(finish_kernel<16>, 16);  // one has the most pieces
  check_launch("ghost_norm_finish");
}

void ghost_norm_running(const GhostShape& shape, const GhostStatistics& statistics, float momentum, float* running_mean,
                        float* running_variance, cudaStream_t stream) {
  const float count = static_cast<float>(rows_of(shape));
  running_kernel<<<divide_up(shape.channels, 64), 64, 0, stream>>>(statistics.mean, statistics.variance, shape.ghosts(),
                                                                   shape.channels, count / (count - 1), momentum,
                                                                   running_mean, running_variance);
  check_launch("ghost_norm_running");
}

void ghost_norm_apply(const GhostShape& shape, const void* x, const void* residual, bool relu,
                      const GhostStatistics& statistics, void* y, cudaStream_t stream) {
  const int parts = ghost_norm_parts(shape) * 2;
  with_vectors(shape.scalar, shape.channels, [&](auto element, auto size) {
    using T = decltype(element);
    constexpr int kSize = size.value;
    const dim3 grid(shape.ghosts() * parts, channel_blocks(shape.channels, kSize));
    const auto launch = [&](auto kernel) {
      kernel<<<grid, kRowThreads, 0, stream>>>(static_cast<const T*>(x), static_cast<const T*>(residual),
                                               rows_of(shape), shape.channels, parts, statistics, static_cast<T*>(y));
    };
    if (relu)
      residual ? launch(apply_kernel<T, kSize, true, true>) : launch(apply_kernel<T, kSize, true, false>);
    else
      residual ? launch(apply_kernel<T, kSize, false, true>) : launch(apply_kernel<T, kSize, false, false>);
  });
  check_launch("ghost_norm_apply");
}

}  // namespace covnoise::cuda
