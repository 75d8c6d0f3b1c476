#include "cuda/channel_rows.cuh"
#include "cuda/normalisation/ghost_norm.h"

namespace covnoise::cuda {
namespace {

constexpr int kBatch = 4, kApplyBatch = 2, kRanges = 32;

enum class Mask { kNone, kFromInput, kFromOutput };

/// Coefficients [G, C] of dx = a d + b x + c; a is also the forward's scale.
struct Coefficients {
  float *a, *b, *c;
};

struct Sums {
  float* units;  ///< [unit][sum of d, sum of d (x - mean)][C]; a unit is a part of an example
  int unit_rows, units_per_example, units_per_ghost;
  float* ghosts;  ///< [G][sum d, sum d xhat, their squares][C]
  Coefficients coefficients;
};

/// Some rows of x and of the gradient d = dy where the ReLU passed it.
template <class T, int kSize, Mask kMask, int kBatch>
struct Rows {
  using C = Channels<T, kSize>;
  const T *x, *dy, *y;
  typename C::Raw raw_x[kBatch], raw_dy[kBatch], raw_y[kBatch];
  float scale[kSize], shift[kSize];

  __device__ Rows(const T* x_, const T* dy_, const T* y_, const GhostStatistics& s, int at) : x(x_), dy(dy_), y(y_) {
    if constexpr (kMask == Mask::kFromInput) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) scale[i] = s.scale[at + i], shift[i] = s.shift[at + i];
    }
  }
  __device__ __forceinline__ void load(int k, long long at) {
    raw_x[k] = C::load(x + at);
    raw_dy[k] = C::load(dy + at);
    if constexpr (kMask == Mask::kFromOutput) raw_y[k] = C::load(y + at);
  }
  __device__ __forceinline__ void get(int k, float (&values)[kSize], float (&d)[kSize]) const {
    C::convert(raw_x[k], values);
    C::convert(raw_dy[k], d);
    if constexpr (kMask == Mask::kFromInput) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) d[i] = fmaf(values[i], scale[i], shift[i]) > 0 ? d[i] : 0.0f;
    } else if constexpr (kMask == Mask::kFromOutput) {
      float out[kSize];
      C::convert(raw_y[k], out);
#pragma unroll
      for (int i = 0; i < kSize; ++i) d[i] = out[i] > 0 ? d[i] : 0.0f;
    }
  }
};

/// Sums of a unit over `lanes` threads. Within a warp by shuffles if its channels fit (kWarp), otherwise within the
/// block.
template <int kSize, bool kWarp>
__device__ __forceinline__ void join_lanes(float (&d_sum)[kSize], float (&dx_sum)[kSize], int vectors, int lane,
                                           int lanes) {
  if constexpr (kWarp) {
    for (int distance = 16; distance >= vectors; distance /= 2)
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        d_sum[i] += __shfl_xor_sync(~0u, d_sum[i], distance);
        dx_sum[i] += __shfl_xor_sync(~0u, dx_sum[i], distance);
      }
  } else {
    __shared__ float shared[2][kSize][kRowThreads];
#pragma unroll
    for (int i = 0; i < kSize; ++i) shared[0][i][threadIdx.x] = d_sum[i], shared[1][i][threadIdx.x] = dx_sum[i];
    __syncthreads();
    if (lane != 0) return;
    for (int l = 1; l < lanes; ++l)
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        d_sum[i] += shared[0][i][l * vectors + threadIdx.x];
        dx_sum[i] += shared[1][i][l * vectors + threadIdx.x];
      }
  }
}

/// A warp, or a block (grid y: its channels), is one unit. Writes d if dresidual is not null.
template <class T, int kSize, Mask kMask, bool kWarp>
__global__ void __launch_bounds__(kRowThreads)
    sums_kernel(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ y, int positions, int channels,
                int units, GhostStatistics s, Sums sums, T* __restrict__ dresidual) {
  const int vectors = kWarp ? channels / kSize : min(channels / kSize, kRowThreads);
  const int thread = kWarp ? threadIdx.x % 32 : threadIdx.x;
  const int unit = kWarp ? blockIdx.x * (kRowThreads / 32) + threadIdx.x / 32 : blockIdx.x;
  const int lanes = (kWarp ? 32 : kRowThreads) / vectors, lane = thread / vectors;
  const int channel = ((kWarp ? 0 : blockIdx.y * vectors) + thread % vectors) * kSize;
  if (kWarp && unit >= units) return;
  const bool active = lane < lanes && channel < channels;
  const int ghost = unit / sums.units_per_ghost, example = unit / sums.units_per_example;
  const int begin = unit % sums.units_per_example * sums.unit_rows, end = min(begin + sums.unit_rows, positions);
  const long long first = static_cast<long long>(example) * positions * channels + channel;
  float d_sum[kSize] = {}, dx_sum[kSize] = {};
  if (active) {
    Rows<T, kSize, kMask, kBatch> rows(x, dy, y, s, ghost * channels + channel);
    float mean[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) mean[i] = s.mean[ghost * channels + channel + i];
    for_rows<kBatch>(
        begin + lane, end, lanes, [&](int k, int row) { rows.load(k, first + static_cast<long long>(row) * channels); },
        [&](int k, int row) {
          float values[kSize], d[kSize];
          rows.get(k, values, d);
          if (dresidual) Channels<T, kSize>::store(dresidual + first + static_cast<long long>(row) * channels, d);
#pragma unroll
          for (int i = 0; i < kSize; ++i) {
            d_sum[i] += d[i];
            dx_sum[i] = fmaf(d[i], values[i] - mean[i], dx_sum[i]);
          }
        });
  }
  join_lanes<kSize, kWarp>(d_sum, dx_sum, vectors, lane, lanes);
  if (!active || lane != 0) return;
  float* target = sums.units + static_cast<long long>(unit) * 2 * channels + channel;
#pragma unroll
  for (int i = 0; i < kSize; ++i) target[i] = d_sum[i], target[channels + i] = dx_sum[i];
}

/// One ghost batch (blockIdx.x) and 32 channels (blockIdx.y): joins the units in order, adds squares, computes the
/// coefficients.
__global__ void __launch_bounds__(32 * kRanges)
    ghost_kernel(Sums sums, int channels, float count, bool per_example, const float* weight, GhostStatistics s) {
  __shared__ float shared[4][kRanges][32];
  const int c = blockIdx.y * 32 + threadIdx.x, ghost = blockIdx.x, parts = sums.units_per_example;
  const int examples = sums.units_per_ghost / parts;
  float sum[4] = {};  // d, d (x - mean), and the squares of the examples'
  if (c < channels) {
    const int begin = threadIdx.y * examples / kRanges, end = (threadIdx.y + 1) * examples / kRanges;
    const float* at =
        sums.units + (static_cast<long long>(ghost) * sums.units_per_ghost + begin * parts) * 2 * channels + c;
#pragma unroll 4
    for (int example = begin; example < end; ++example) {
      float d = 0, dx = 0;
      for (int part = 0; part < parts; ++part, at += 2 * channels) d += at[0], dx += at[channels];
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
  sums.coefficients.c[at] = (-a * sum[0] + a * rstd * d_xhat * s.mean[at]) / count;
}

struct Totals {
  float *dweight, *dbias, *dweight_squares, *dbias_squares;
};

/// Sums over the ghost batches, in order. Done by the first block of the last launch, which need not wait for others.
__device__ void add_totals(const float* ghosts, int number, int channels, const Totals& totals) {
  float* targets[4] = {totals.dbias, totals.dweight, totals.dbias_squares, totals.dweight_squares};
#pragma unroll
  for (int which = 0; which < 4; ++which) {
    if (!targets[which]) continue;
    for (int c = threadIdx.x; c < channels; c += kRowThreads) {
      float sum = 0;
#pragma unroll 8
      for (int g = 0; g < number; ++g) sum += ghosts[(static_cast<long long>(g) * 4 + which) * channels + c];
      targets[which][c] = (which < 2 ? 0.0f : targets[which][c]) + sum;  // squares are added up over calls
    }
  }
}

template <class T, int kSize, Mask kMask>
__global__ void __launch_bounds__(kRowThreads, 3)
    apply_kernel(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ y, int rows, int channels,
                 int parts, int ghosts, GhostStatistics s, Sums sums, Totals totals, T* __restrict__ dx) {
  if (blockIdx.x == 0 && blockIdx.y == 0) add_totals(sums.ghosts, ghosts, channels, totals);
  const RowWalk<kSize> walk(channels);
  if (!walk.active) return;
  const int ghost = blockIdx.x / parts, part = blockIdx.x % parts;
  const int begin = static_cast<int>(static_cast<long long>(part) * rows / parts);
  const int end = static_cast<int>(static_cast<long long>(part + 1) * rows / parts);
  Rows<T, kSize, kMask, kApplyBatch> loaded(x, dy, y, s, ghost * channels + walk.channel);
  float a[kSize], b[kSize], c[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const int at = ghost * channels + walk.channel + i;
    a[i] = sums.coefficients.a[at], b[i] = sums.coefficients.b[at], c[i] = sums.coefficients.c[at];
  }
  const long long first = static_cast<long long>(ghost) * rows * channels + walk.channel;
  for_rows<kApplyBatch>(
      begin + walk.lane, end, walk.lanes,
      [&](int k, int row) { loaded.load(k, first + static_cast<long long>(row) * channels); },
      [&](int k, int row) {
        float values[kSize], d[kSize];
        loaded.get(k, values, d);
#pragma unroll
        for (int i = 0; i < kSize; ++i) values[i] = fmaf(a[i], d[i], fmaf(b[i], values[i], c[i]));
        Channels<T, kSize>::store(dx + first + static_cast<long long>(row) * channels, values);
      });
}

bool fits_warp(const GhostShape& shape) {
  const int size = shape.scalar == Scalar::kBFloat16 ? 8 : 4, vectors = shape.channels / size;
  return shape.channels % size == 0 && vectors <= 32 && (vectors & (vectors - 1)) == 0;
}

struct Layout {
  Sums sums;
  int units;
  std::size_t floats;
};

Layout lay_out(const GhostNormBackward& call) {
  constexpr int kUnitBytes = 8192;  // of x, for one warp
  const GhostShape& shape = call.shape;
  const int bytes = shape.positions * shape.channels * bytes_of(shape.scalar);
  Layout layout{};
  Sums& sums = layout.sums;
  sums.unit_rows = divide_up(shape.positions, fits_warp(shape) ? divide_up(bytes, kUnitBytes) : 1);
  sums.units_per_example = divide_up(shape.positions, sums.unit_rows);
  sums.units_per_ghost = shape.ghost_batch * sums.units_per_example;
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
struct Pass {
  const GhostNormBackward& call;
  cudaStream_t stream;
  Layout layout;

  template <Mask kMask>
  void sums() const {
    const GhostShape& s = call.shape;
    const auto launch = [&](auto kernel, dim3 grid) {
      kernel<<<grid, kRowThreads, 0, stream>>>(static_cast<const T*>(call.x), static_cast<const T*>(call.dy),
                                               static_cast<const T*>(call.y), s.positions, s.channels, layout.units,
                                               call.statistics, layout.sums, static_cast<T*>(call.dresidual));
    };
    if (fits_warp(s))
      launch(sums_kernel<T, kSize, kMask, true>, dim3(divide_up(layout.units, kRowThreads / 32)));
    else
      launch(sums_kernel<T, kSize, kMask, false>, dim3(layout.units, channel_blocks(s.channels, kSize)));
    check_launch("ghost_norm_backward sums");
  }
  void coefficients() const {
    const GhostShape& s = call.shape;
    ghost_kernel<<<dim3(s.ghosts(), divide_up(s.channels, 32)), dim3(32, kRanges), 0, stream>>>(
        layout.sums, s.channels, static_cast<float>(s.ghost_batch) * static_cast<float>(s.positions),
        call.squares_per_example, call.weight, call.statistics);
    check_launch("ghost_norm_backward coefficients");
  }
  template <Mask kMask>
  void apply(const void* d) const {
    const GhostShape& s = call.shape;
    const int parts = 2 * ghost_norm_parts(s);
    apply_kernel<T, kSize, kMask>
        <<<dim3(s.ghosts() * parts, channel_blocks(s.channels, kSize)), kRowThreads, 0, stream>>>(
            static_cast<const T*>(call.x), static_cast<const T*>(d), static_cast<const T*>(call.y),
            s.ghost_batch * s.positions, s.channels, parts, s.ghosts(), call.statistics, layout.sums,
            Totals{call.dweight, call.dbias, call.dweight_squares, call.dbias_squares}, static_cast<T*>(call.dx));
    check_launch("ghost_norm_backward");
  }
  template <Mask kMask>
  void run() const {
    sums<kMask>();
    coefficients();
    call.dresidual ? apply<Mask::kNone>(call.dresidual) : apply<kMask>(call.dy);
  }
};

}  // namespace

std::size_t ghost_norm_backward_workspace(const GhostNormBackward& call) {
  return lay_out(call).floats * sizeof(float);
}

void ghost_norm_backward(const GhostNormBackward& call, cudaStream_t stream) {
  if (call.relu && call.residual && !call.y)
    throw std::runtime_error("ghost_norm_backward: a ReLU after a residual needs the output");
  with_vectors(call.shape.scalar, call.shape.channels, [&](auto element, auto size) {
    const Pass<decltype(element), size.value> pass{call, stream, lay_out(call)};
    if (!call.relu) return pass.template run<Mask::kNone>();
    call.residual ? pass.template run<Mask::kFromOutput>() : pass.template run<Mask::kFromInput>();
  });
}

}  // namespace covnoise::cuda
