#include "cuda/channel_rows.cuh"
#include "cuda/ghost_norm.h"

namespace covnoise::cuda {
namespace {

enum class Mask { kNone, kFromInput, kFromOutput };

/// Coefficients [G, C] of dx = a d + b (x - mean) + c.
struct Coefficients {
  float *a, *b, *c;
};

struct Sums {
  float* units;  ///< [unit][sum of d, sum of d (x - mean)][C]; a unit is an example or a piece of a ghost batch
  int unit_rows, units_per_ghost;
  float* ghosts;  ///< [G][sum d, sum d xhat, their squares][C]
  Coefficients coefficients;
};

/// d = dy where the ReLU let it pass.
template <class T, int kSize, Mask kMask>
__device__ __forceinline__ void load_masked(const T* dy, const T* y, long long at, const float (&x)[kSize],
                                            const float (&scale)[kSize], const float (&shift)[kSize],
                                            float (&d)[kSize]) {
  Channels<T, kSize>::load(dy + at, d);
  if constexpr (kMask == Mask::kFromInput) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) d[i] = fmaf(x[i], scale[i], shift[i]) > 0 ? d[i] : 0.0f;
  } else if constexpr (kMask == Mask::kFromOutput) {
    float out[kSize];
    Channels<T, kSize>::load(y + at, out);
#pragma unroll
    for (int i = 0; i < kSize; ++i) d[i] = out[i] > 0 ? d[i] : 0.0f;
  }
}

/// grid: x = units, y = blocks of channels. Writes d if dresidual is not null.
template <class T, int kSize, Mask kMask>
__global__ void __launch_bounds__(kRowThreads)
    sums_kernel(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ y, int rows, int channels,
                GhostStatistics s, Sums sums, T* __restrict__ dresidual) {
  __shared__ float shared[2][kRowThreads][kSize];
  const RowWalk<kSize> walk(channels);
  const int ghost = blockIdx.x / sums.units_per_ghost, unit = blockIdx.x % sums.units_per_ghost;
  const int begin = unit * sums.unit_rows, end = min(begin + sums.unit_rows, rows);
  const long long first = static_cast<long long>(ghost) * rows * channels + walk.channel;
  float d_sum[kSize] = {}, dx_sum[kSize] = {};
  if (walk.active) {
    float mean[kSize], scale[kSize], shift[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int at = ghost * channels + walk.channel + i;
      mean[i] = s.mean[at];
      if constexpr (kMask == Mask::kFromInput) scale[i] = s.scale[at], shift[i] = s.shift[at];
    }
#pragma unroll 4
    for (int row = begin + walk.lane; row < end; row += walk.lanes) {
      const long long at = first + static_cast<long long>(row) * channels;
      float values[kSize], d[kSize];
      Channels<T, kSize>::load(x + at, values);
      load_masked<T, kSize, kMask>(dy, y, at, values, scale, shift, d);
      if (dresidual) Channels<T, kSize>::store(dresidual + at, d);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        d_sum[i] += d[i];
        dx_sum[i] = fmaf(d[i], values[i] - mean[i], dx_sum[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) shared[0][threadIdx.x][i] = d_sum[i], shared[1][threadIdx.x][i] = dx_sum[i];
  __syncthreads();
  const int vectors = min(channels / kSize, kRowThreads);
  for (int half = kRowThreads / 2; half > 0; half /= 2) {
    const int other = threadIdx.x + half * vectors;
    if (walk.lane < half && walk.lane + half < walk.lanes) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        shared[0][threadIdx.x][i] += shared[0][other][i];
        shared[1][threadIdx.x][i] += shared[1][other][i];
      }
    }
    __syncthreads();
  }
  if (!walk.active || walk.lane != 0) return;
  float* target = sums.units + static_cast<long long>(blockIdx.x) * 2 * channels + walk.channel;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    target[i] = shared[0][threadIdx.x][i];
    target[channels + i] = shared[1][threadIdx.x][i];
  }
}

constexpr int kRanges = 8;

/// One ghost batch (blockIdx.x) and 32 channels (blockIdx.y): joins the units in order, squares, and the coefficients.
__global__ void __launch_bounds__(32 * kRanges)
    ghost_kernel(Sums sums, int channels, float count, bool per_example, const float* weight, GhostStatistics s) {
  __shared__ float shared[4][kRanges][32];
  const int c = blockIdx.y * 32 + threadIdx.x, ghost = blockIdx.x, units = sums.units_per_ghost;
  float sum[4] = {};  // d, d (x - mean), and the squares of the units'
  if (c < channels) {
    const int begin = threadIdx.y * units / kRanges, end = (threadIdx.y + 1) * units / kRanges;
    const float* at = sums.units + (static_cast<long long>(ghost) * units + begin) * 2 * channels + c;
#pragma unroll 4
    for (int unit = begin; unit < end; ++unit, at += 2 * channels) {
      const float d = at[0], dx = at[channels];
      sum[0] += d, sum[1] += dx;
      sum[2] = fmaf(d, d, sum[2]), sum[3] = fmaf(dx, dx, sum[3]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) shared[i][threadIdx.y][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
  for (int y = 1; y < kRanges; ++y)
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += shared[i][y][threadIdx.x];
  const int at = ghost * channels + c;
  const float rstd = s.rstd[at], d_xhat = sum[1] * rstd, a = weight[c] * rstd;
  float* target = sums.ghosts + static_cast<long long>(ghost) * 4 * channels + c;
  target[0] = sum[0];
  target[channels] = d_xhat;
  target[2 * channels] = per_example ? sum[2] : sum[0] * sum[0];
  target[3 * channels] = per_example ? sum[3] * rstd * rstd : d_xhat * d_xhat;
  sums.coefficients.a[at] = a;
  sums.coefficients.b[at] = -a * rstd * d_xhat / count;
  sums.coefficients.c[at] = -a * sum[0] / count;
}

struct Totals {
  float *dweight, *dbias, *dweight_squares, *dbias_squares;
};

/// The ghost batches' sums in order. Done by the first blocks of the last launch, which has to wait for nobody.
__device__ void add_totals(const float* ghosts, int number, int channels, const Totals& totals) {
  float* targets[4] = {totals.dbias, totals.dweight, totals.dbias_squares, totals.dweight_squares};
  for (int i = threadIdx.x; i < 4 * channels; i += kRowThreads) {
    float* target = targets[i / channels];
    if (!target) continue;
    float sum = 0;
#pragma unroll 8
    for (int g = 0; g < number; ++g) sum += ghosts[static_cast<long long>(g) * 4 * channels + i];
    target[i % channels] += sum;
  }
}

template <class T, int kSize, Mask kMask>
__global__ void __launch_bounds__(kRowThreads)
    apply_kernel(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ y, int rows, int channels,
                 int parts, int ghosts, GhostStatistics s, Sums sums, Totals totals, T* __restrict__ dx) {
  if (blockIdx.x == 0 && blockIdx.y == 0) add_totals(sums.ghosts, ghosts, channels, totals);
  const RowWalk<kSize> walk(channels);
  if (!walk.active) return;
  const int ghost = blockIdx.x / parts, part = blockIdx.x % parts;
  const int begin = static_cast<int>(static_cast<long long>(part) * rows / parts);
  const int end = static_cast<int>(static_cast<long long>(part + 1) * rows / parts);
  float mean[kSize], a[kSize], b[kSize], c[kSize], scale[kSize], shift[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const int at = ghost * channels + walk.channel + i;
    mean[i] = s.mean[at];
    a[i] = sums.coefficients.a[at], b[i] = sums.coefficients.b[at], c[i] = sums.coefficients.c[at];
    if constexpr (kMask == Mask::kFromInput) scale[i] = s.scale[at], shift[i] = s.shift[at];
  }
  const long long first = static_cast<long long>(ghost) * rows * channels + walk.channel;
#pragma unroll 4
  for (int row = begin + walk.lane; row < end; row += walk.lanes) {
    const long long at = first + static_cast<long long>(row) * channels;
    float values[kSize], d[kSize];
    Channels<T, kSize>::load(x + at, values);
    load_masked<T, kSize, kMask>(dy, y, at, values, scale, shift, d);
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = fmaf(a[i], d[i], fmaf(b[i], values[i] - mean[i], c[i]));
    Channels<T, kSize>::store(dx + at, values);
  }
}

struct Layout {
  Sums sums;
  int units;
  std::size_t floats;
};

Layout lay_out(const GhostNormBackward& call) {
  const GhostShape& shape = call.shape;
  const int rows = shape.ghost_batch * shape.positions;
  const bool per_example = call.squares_per_example && call.dweight_squares;
  Layout layout{};
  Sums& sums = layout.sums;
  sums.unit_rows = per_example ? shape.positions : divide_up(rows, ghost_norm_parts(shape));
  sums.units_per_ghost = divide_up(rows, sums.unit_rows);
  layout.units = shape.ghosts() * sums.units_per_ghost;
  const std::size_t unit_floats = static_cast<std::size_t>(layout.units) * 2 * shape.channels;
  sums.units = call.workspace;
  sums.ghosts = sums.units + unit_floats;
  sums.coefficients.a = sums.ghosts + 4 * shape.values();
  sums.coefficients.b = sums.coefficients.a + shape.values();
  sums.coefficients.c = sums.coefficients.b + shape.values();
  layout.floats = unit_floats + 7 * shape.values();
  return layout;
}

template <class T, int kSize>
void run(const GhostNormBackward& call, cudaStream_t stream) {
  const GhostShape& shape = call.shape;
  const Layout layout = lay_out(call);
  const int rows = shape.ghost_batch * shape.positions, parts = 2 * ghost_norm_parts(shape);
  const unsigned blocks = channel_blocks(shape.channels, kSize);
  const T *x = static_cast<const T*>(call.x), *dy = static_cast<const T*>(call.dy), *y = static_cast<const T*>(call.y);
  T *dresidual = static_cast<T*>(call.dresidual), *dx = static_cast<T*>(call.dx);
  const Mask mask = !call.relu ? Mask::kNone : call.residual ? Mask::kFromOutput : Mask::kFromInput;
  const auto launch_sums = [&](auto kernel) {
    kernel<<<dim3(layout.units, blocks), kRowThreads, 0, stream>>>(x, dy, y, rows, shape.channels, call.statistics,
                                                                   layout.sums, dresidual);
    check_launch("ghost_norm_backward sums");
  };
  const auto launch_apply = [&](auto kernel, const T* d) {
    kernel<<<dim3(shape.ghosts() * parts, blocks), kRowThreads, 0, stream>>>(
        x, d, y, rows, shape.channels, parts, shape.ghosts(), call.statistics, layout.sums,
        Totals{call.dweight, call.dbias, call.dweight_squares, call.dbias_squares}, dx);
    check_launch("ghost_norm_backward");
  };
  if (mask == Mask::kNone) launch_sums(sums_kernel<T, kSize, Mask::kNone>);
  if (mask == Mask::kFromInput) launch_sums(sums_kernel<T, kSize, Mask::kFromInput>);
  if (mask == Mask::kFromOutput) launch_sums(sums_kernel<T, kSize, Mask::kFromOutput>);
  ghost_kernel<<<dim3(shape.ghosts(), divide_up(shape.channels, 32)), dim3(32, kRanges), 0, stream>>>(
      layout.sums, shape.channels, static_cast<float>(rows), call.squares_per_example, call.weight, call.statistics);
  check_launch("ghost_norm_backward coefficients");
  if (dresidual || mask == Mask::kNone)
    return launch_apply(apply_kernel<T, kSize, Mask::kNone>, dresidual ? dresidual : dy);
  if (mask == Mask::kFromInput) return launch_apply(apply_kernel<T, kSize, Mask::kFromInput>, dy);
  launch_apply(apply_kernel<T, kSize, Mask::kFromOutput>, dy);
}

}  // namespace

std::size_t ghost_norm_backward_workspace(const GhostNormBackward& call) {
  return lay_out(call).floats * sizeof(float);
}

void ghost_norm_backward(const GhostNormBackward& call, cudaStream_t stream) {
  if (call.relu && call.residual && !call.y)
    throw std::runtime_error("ghost_norm_backward: a ReLU after a residual needs the output");
  with_vectors(call.shape.scalar, call.shape.channels,
               [&](auto element, auto size) { run<decltype(element), size.value>(call, stream); });
}

}  // namespace covnoise::cuda
