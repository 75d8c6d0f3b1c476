#include "cuda/normalisation/norm_sums.h"

#include "cuda/channel_rows.cuh"
#include "cuda/normalisation/norm_sums_plan.h"

namespace covnoise::cuda {
namespace {

constexpr int kBatch = 4, kJoinRanges = 8, kMomentChannels = 8, kMomentRanges = 128;

/// mean and rstd [A, B]: one for `rows` rows and `channels` channels.
struct Statistics {
  const float *mean, *rstd;
  int rows, channels, width;  ///< width: B

  __device__ int at(int row, int channel) const { return row / rows * width + channel / channels; }
};

/// Where the sums of units go, [2][units][C].
struct Units {
  float* sums;
  int number;

  __device__ float& at(int which, int unit, int channels, int channel) const {
    return sums[(static_cast<long long>(which) * number + unit) * channels + channel];
  }
};

/// One unit (blockIdx.x) of rows [M P, C] and a block of channels (blockIdx.y).
template <class T, int kSize, bool kByRow>
__global__ void __launch_bounds__(kRowThreads) rows_kernel(const T* __restrict__ dy, const T* __restrict__ x,
                                                           NormSumsPlan plan, int channels, Statistics s, Units out) {
  __shared__ float shared[2][kSize][kRowThreads + 32 / kSize];  // padded: consecutive channels in different banks
  using C = Channels<T, kSize>;
  const RowWalk<kSize> walk(channels);
  const auto range = plan.rows_of(static_cast<int>(blockIdx.x));
  const int row_of_statistics = min(range.begin, plan.rows - 1);  // an empty unit reads none of its rows
  float weight[kSize] = {}, bias[kSize] = {};
  if (walk.active) {
    typename C::Raw raw_dy[kBatch], raw_x[kBatch];
    float row_mean[kBatch], row_rstd[kBatch], mean[kSize];
    if constexpr (!kByRow) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) mean[i] = s.mean[s.at(row_of_statistics, walk.channel + i)];
    }
    for_rows<kBatch>(
        range.begin + walk.lane, range.end, walk.lanes,
        [&](int k, int row) {
          const long long at = static_cast<long long>(row) * channels + walk.channel;
          raw_dy[k] = C::load(dy + at);
          raw_x[k] = C::load(x + at);
          if constexpr (kByRow) row_mean[k] = s.mean[row], row_rstd[k] = s.rstd[row];
        },
        [&](int k, int) {
          float d[kSize], values[kSize];
          C::convert(raw_dy[k], d);
          C::convert(raw_x[k], values);
#pragma unroll
          for (int i = 0; i < kSize; ++i) {
            bias[i] += d[i];
            if constexpr (kByRow)
              weight[i] = fmaf(d[i], (values[i] - row_mean[k]) * row_rstd[k], weight[i]);
            else
              weight[i] = fmaf(d[i], values[i] - mean[i], weight[i]);
          }
        });
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) shared[0][i][threadIdx.x] = weight[i], shared[1][i][threadIdx.x] = bias[i];
  __syncthreads();
  const int vectors = min(channels / kSize, kRowThreads), first = static_cast<int>(blockIdx.y) * vectors * kSize;
  const int width = min(vectors * kSize, channels - first);
  for (int index = static_cast<int>(threadIdx.x); index < 2 * width; index += kRowThreads) {
    const int which = index < width ? 0 : 1, c = index - which * width;
    float sum = 0;
#pragma unroll 4
    for (int lane = 0; lane < walk.lanes; ++lane) sum += shared[which][c % kSize][lane * vectors + c / kSize];
    if (!kByRow && which == 0) sum *= s.rstd[s.at(row_of_statistics, first + c)];
    out.at(which, static_cast<int>(blockIdx.x), channels, first + c) = sum;
  }
}

/// Planes [M C, P]: `width` lanes of a warp, a power of two, add up one; an example is a unit.
template <class T, int kSize>
__global__ void __launch_bounds__(kRowThreads)
    planes_kernel(const T* __restrict__ dy, const T* __restrict__ x, int positions, int channels, int width,
                  Statistics s, Units out) {
  using C = Channels<T, kSize>;
  const int lane = static_cast<int>(threadIdx.x) % width;
  const long long plane = (static_cast<long long>(blockIdx.x) * kRowThreads + threadIdx.x) / width;
  const bool active = plane < static_cast<long long>(out.number) * channels;
  const int example = static_cast<int>(plane / channels), channel = static_cast<int>(plane % channels);
  float weight = 0, bias = 0, rstd = 0;
  if (active) {
    typename C::Raw raw_dy[kBatch], raw_x[kBatch];
    const int at = s.at(example * positions, channel);
    const float mean = s.mean[at];
    rstd = s.rstd[at];
    for_rows<kBatch>(
        lane, positions / kSize, width,
        [&](int k, int vector) {
          const long long first = plane * positions + static_cast<long long>(vector) * kSize;
          raw_dy[k] = C::load(dy + first);
          raw_x[k] = C::load(x + first);
        },
        [&](int k, int) {
          float d[kSize], values[kSize];
          C::convert(raw_dy[k], d);
          C::convert(raw_x[k], values);
#pragma unroll
          for (int i = 0; i < kSize; ++i) bias += d[i], weight = fmaf(d[i], values[i] - mean, weight);
        });
  }
  for (int distance = width / 2; distance > 0; distance /= 2) {
    weight += __shfl_xor_sync(~0u, weight, distance);
    bias += __shfl_xor_sync(~0u, bias, distance);
  }
  if (!active || lane != 0) return;
  out.at(0, example, channels, channel) = weight * rstd;
  out.at(1, example, channels, channel) = bias;
}

/// One group (blockIdx.x, behind those of the weight those of the bias) and 32 channels (blockIdx.y): joins its units
/// in order.
__global__ void __launch_bounds__(32 * kJoinRanges)
    join_kernel(Units units, int per_group, int groups, int channels, float* sums) {
  __shared__ float shared[kJoinRanges][32];
  const int group = static_cast<int>(blockIdx.x) % groups, which = static_cast<int>(blockIdx.x) / groups;
  const int c = static_cast<int>(blockIdx.y * 32 + threadIdx.x), first = group * per_group;
  const int number = min(per_group, units.number - first), range = static_cast<int>(threadIdx.y);
  const int begin = first + static_cast<int>(static_cast<long long>(range) * number / kJoinRanges);
  const int end = first + static_cast<int>(static_cast<long long>(range + 1) * number / kJoinRanges);
  float sum = 0;
  if (c < channels) {
#pragma unroll 8
    for (int unit = begin; unit < end; ++unit) sum += units.at(which, unit, channels, c);
  }
  shared[range][threadIdx.x] = sum;
  __syncthreads();
  if (range != 0 || c >= channels) return;
#pragma unroll
  for (int y = 1; y < kJoinRanges; ++y) sum += shared[y][threadIdx.x];
  sums[static_cast<long long>(blockIdx.x) * channels + c] = sum;
}

/// Weight or bias (blockIdx.y) and some channels (blockIdx.x): sums S_j and (m / m_j) S_j^2 over the groups, m / m_j
/// being 1 except for the last group.
__global__ void __launch_bounds__(kMomentChannels* kMomentRanges)
    moments_kernel(const float* __restrict__ sums, int groups, int channels, float last_weight, float* gradients,
                   float* moments) {
  __shared__ float shared[2][kMomentRanges][kMomentChannels];
  const int c = static_cast<int>(blockIdx.x * kMomentChannels + threadIdx.x), y = static_cast<int>(threadIdx.y);
  const float* at = sums + static_cast<long long>(blockIdx.y) * groups * channels + c;
  float sum = 0, squares = 0;
  if (c < channels) {
#pragma unroll 8
    for (int g = y; g < groups; g += kMomentRanges) {
      const float value = at[static_cast<long long>(g) * channels];
      sum += value;
      squares += value * value * (g == groups - 1 ? last_weight : 1.0f);
    }
  }
  shared[0][y][threadIdx.x] = sum, shared[1][y][threadIdx.x] = squares;
  for (int half = kMomentRanges / 2; half > 0; half /= 2) {
    __syncthreads();
    if (y >= half) continue;
    shared[0][y][threadIdx.x] += shared[0][y + half][threadIdx.x];
    shared[1][y][threadIdx.x] += shared[1][y + half][threadIdx.x];
  }
  if (y != 0 || c >= channels) return;
  float* target = moments + static_cast<long long>(blockIdx.y) * 2 * channels + c;
  gradients[static_cast<long long>(blockIdx.y) * channels + c] = target[0] = shared[0][0][threadIdx.x];
  target[channels] = shared[1][0][threadIdx.x];
}

struct Layout {
  NormSumsPlan plan;  ///< of rows
  int units, units_per_group;
};

Layout lay_out(const NormSums& call) {
  if (call.planes) return {{}, call.examples, call.group};
  const NormSumsPlan plan = plan_norm_sums(call.examples, call.positions, call.group, call.statistic_rows,
                                           call.by_row(), 24 * multiprocessors());
  return {plan, plan.units(), plan.units_per_group};
}

Statistics statistics_of(const NormSums& call) {
  const int rows = static_cast<int>(static_cast<long long>(call.examples) * call.positions / call.statistic_rows);
  return {call.mean, call.rstd, rows, call.channels / call.statistic_channels, call.statistic_channels};
}

void sum_rows(const NormSums& call, const Layout& layout, const Units& units, cudaStream_t stream) {
  with_vectors(call.scalar, call.channels, [&](auto element, auto size) {
    using T = decltype(element);
    const dim3 grid(layout.units, channel_blocks(call.channels, size.value));
    const auto launch = [&](auto kernel) {
      kernel<<<grid, kRowThreads, 0, stream>>>(static_cast<const T*>(call.dy), static_cast<const T*>(call.x),
                                               layout.plan, call.channels, statistics_of(call), units);
    };
    call.by_row() ? launch(rows_kernel<T, size.value, true>) : launch(rows_kernel<T, size.value, false>);
  });
  check_launch("norm_sums rows");
}

void sum_planes(const NormSums& call, const Units& units, cudaStream_t stream) {
  with_vectors(call.scalar, call.positions, [&](auto element, auto size) {
    using T = decltype(element);
    int width = 1;
    while (width < 32 && width * size.value < call.positions) width *= 2;
    const long long threads = static_cast<long long>(call.examples) * call.channels * width;
    planes_kernel<T, size.value>
        <<<static_cast<unsigned>(divide_up<long long>(threads, kRowThreads)), kRowThreads, 0, stream>>>(
            static_cast<const T*>(call.dy), static_cast<const T*>(call.x), call.positions, call.channels, width,
            statistics_of(call), units);
  });
  check_launch("norm_sums planes");
}

}  // namespace

std::size_t norm_sums_workspace(const NormSums& call) {
  const Layout layout = lay_out(call);
  return layout.units_per_group == 1 ? 0 : 2 * static_cast<std::size_t>(layout.units) * call.channels * sizeof(float);
}

void norm_sums(const NormSums& call, cudaStream_t stream) {
  if (call.planes && call.by_row() && call.positions > 1)
    throw std::runtime_error("norm_sums: planes have no statistics by row");
  const Layout layout = lay_out(call);
  const bool joined = layout.units_per_group > 1;
  const Units units{joined ? call.workspace : call.sums, layout.units};
  call.planes ? sum_planes(call, units, stream) : sum_rows(call, layout, units, stream);
  if (joined) {
    join_kernel<<<dim3(2 * call.groups(), divide_up(call.channels, 32)), dim3(32, kJoinRanges), 0, stream>>>(
        units, layout.units_per_group, call.groups(), call.channels, call.sums);
    check_launch("norm_sums join");
  }
  moments_kernel<<<dim3(divide_up(call.channels, kMomentChannels), 2), dim3(kMomentChannels, kMomentRanges), 0,
                   stream>>>(call.sums, call.groups(), call.channels, call.last_weight, call.gradients, call.moments);
  check_launch("norm_sums moments");
}

}  // namespace covnoise::cuda
