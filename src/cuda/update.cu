#include "cuda/update.h"

#include "cuda/table.cuh"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace covnoise::cuda {
namespace {

constexpr int kThreads = 256;

/// Four elements, read and written at once.
template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) FourOf {
  T v[4];
};
using Four = FourOf<float>;

template <class T>
__device__ FourOf<T> load(const T* source, long long block) {
  return reinterpret_cast<const FourOf<T>*>(source)[block];
}
template <class T>
__device__ void store(T* target, long long block, const FourOf<T>& f) {
  reinterpret_cast<FourOf<T>*>(target)[block] = f;
}

/// Normals 4 block to 4 block + 3 of the stream, as fill_normal orders them.
__device__ Four normals(const RandomStream& stream, long long block) {
  const Philox4 words = stream.words(static_cast<std::uint64_t>(block));
  const NormalPair first = normal_pair(words.x[0], words.x[1]), second = normal_pair(words.x[2], words.x[3]);
  return {{first.first, first.second, second.first, second.second}};
}

/// The noise of one block of four, with the scale.
template <UpdateNoise kNoise>
__device__ Four draw(const Update& u, long long block) {
  if constexpr (kNoise == UpdateNoise::kNone) return {};
  if constexpr (kNoise == UpdateNoise::kGiven) return load(u.values, block);
  const Four variance = load(u.values, block);
  Four n = normals({u.seed, Purpose::kNoise, u.step}, block);
  for (int i = 0; i < 4; ++i) n.v[i] *= sqrtf(variance.v[i]) * u.noise_scale;
  return n;
}

template <UpdateNoise kNoise>
__global__ void __launch_bounds__(kThreads) update_kernel(const __grid_constant__ Update u) {
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (4 * block >= u.size) return;
  const float clip = u.clip ? *u.clip : 1.0f;
  Four theta = load(u.theta, block), b{};
  const Four g = load(u.gradient, block), n = draw<kNoise>(u, block);
  if (u.momentum != 0) b = load(u.momentum_buffer, block);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float d = g.v[i] * clip;
    const float noise = n.v[i] * clip;
    if (u.noise_in_gradient) d += noise;
    d = fmaf(u.weight_decay, theta.v[i], d);
    float step = d;
    if (u.momentum != 0) {
      b.v[i] = fmaf(u.momentum, b.v[i], d);
      step = u.nesterov ? fmaf(u.momentum, b.v[i], d) : b.v[i];
    }
    theta.v[i] = fmaf(-u.lr, step, theta.v[i]);
    if (!u.noise_in_gradient) theta.v[i] = fmaf(-u.lr, noise, theta.v[i]);
  }
  store(u.theta, block, theta);
  if (u.momentum != 0) store(u.momentum_buffer, block, b);
}

template <UpdateNoise kNoise>
__global__ void __launch_bounds__(kThreads) adamw_kernel(const __grid_constant__ AdamWUpdate u) {
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (4 * block >= u.size) return;
  const float clip = u.clip ? *u.clip : 1.0f, step = u.lr / u.correction1;
  Four theta = load(u.theta, block), m = load(u.momentum_buffer, block), v = load(u.second, block);
  const Four g = load(u.gradient, block), n = draw<kNoise>(u, block);
  Four decayed{{1, 1, 1, 1}};
  if (u.decayed) decayed = load(u.decayed, block);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float noise = n.v[i] * clip;
    float d = g.v[i] * clip;
    if (u.noise_in_gradient) d += noise;
    m.v[i] = fmaf(u.momentum, m.v[i], (1.0f - u.momentum) * d);
    v.v[i] = fmaf(u.beta2, v.v[i], (1.0f - u.beta2) * d * d);
    const float root = sqrtf(v.v[i]) / u.root_correction2 + u.eps;
    const float direction = u.noise_in_gradient ? m.v[i] : fmaf(u.correction1, noise, m.v[i]);
    theta.v[i] = theta.v[i] * (1.0f - u.lr * u.weight_decay * decayed.v[i]) - step * direction / root;
  }
  store(u.theta, block, theta);
  store(u.momentum_buffer, block, m);
  store(u.second, block, v);
}

__global__ void __launch_bounds__(kThreads)
    group_variance_kernel(float* squares, const float* mean, float of_mean, float factor, long long size) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < size) squares[i] = fmaxf(squares[i] - of_mean * mean[i] * mean[i], 0.0f) * factor;
}

/// Four elements from one block of the stream.
template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(T* out, const T* variance, long long size, Distribution distribution, RandomStream random) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (4 * block >= size) return;
  Four four;
  if (distribution == Distribution::kNormal) {
    four = normals(random, block);
  } else {
    const Philox4 words = random.words(static_cast<std::uint64_t>(block));
    for (int i = 0; i < 4; ++i)
      four.v[i] = distribution == Distribution::kUniform ? uniform_open(words.x[i])
                  : (words.x[i] >> 31) != 0              ? 1.0f
                                                         : -1.0f;
  }
  const long long left = size - 4 * block;
  FourOf<T> values;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Wide value = four.v[i];
    const bool scaled = variance && i < left;
    values.v[i] = static_cast<T>(scaled ? sqrt(static_cast<Wide>(variance[4 * block + i])) * value : value);
  }
  if (left >= 4 && reinterpret_cast<std::uintptr_t>(out) % alignof(FourOf<T>) == 0) {
    store(out, block, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) out[4 * block + i] = values.v[i];
  }
}

/// The table, with the number of the first thread block behind each sample.
struct SampleBlocks {
  DiagonalSampleTable table;
  unsigned end[DiagonalSampleTable::kMost];
};
static_assert(sizeof(SampleBlocks) <= 4096, "kernel arguments");

/// Four elements from one block of the stream.
template <class T>
__global__ void __launch_bounds__(kThreads) sample_kernel(const __grid_constant__ SampleBlocks blocks) {
  const int k = entry_of_block(blocks.end, blocks.table.count);
  const DiagonalSampleTable::Sample& s = blocks.table.samples[k];
  const unsigned begin = k == 0 ? 0 : blocks.end[k - 1];
  const long long block = static_cast<long long>(blockIdx.x - begin) * kThreads + threadIdx.x;
  const long long left = s.size - 4 * block;
  if (left <= 0) return;
  RandomStream random = blocks.table.random;
  random.first = s.first;
  const Four normal = normals(random, block);
  const T* sums = static_cast<const T*>(s.moments);
  const T* squares = sums + s.size;
  T* out = static_cast<T*>(s.out);
  FourOf<T> sum, square, value;
  const bool whole = s.size % 4 == 0 && reinterpret_cast<std::uintptr_t>(sums) % alignof(FourOf<T>) == 0;
  if (whole) sum = load(sums, block), square = load(squares, block);
  const T of_sums = static_cast<T>(blocks.table.of_sums), factor = static_cast<T>(blocks.table.factor);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= left) break;
    const T total = whole ? sum.v[i] : sums[4 * block + i];
    const T excess = (whole ? square.v[i] : squares[4 * block + i]) - of_sums * total * total;
    const T variance = (excess < T(0) ? T(0) : excess) * factor;  // NaN stays
    value.v[i] = sqrt(variance) * static_cast<T>(normal.v[i]) * static_cast<T>(s.scale);
  }
  if (whole && s.channels == 1 && reinterpret_cast<std::uintptr_t>(out) % alignof(FourOf<T>) == 0) {
    store(out, block, value);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= left) break;
    const long long at = 4 * block + i, row = at / s.positions, image = row / s.channels;
    out[(image * s.positions + at % s.positions) * s.channels + row % s.channels] = value.v[i];
  }
}

void launch_fill(void* out, const void* variance, Number number, long long size, Distribution distribution,
                 const RandomStream& random, cudaStream_t stream) {
  if (size == 0) return;
  const unsigned blocks = static_cast<unsigned>(divide_up<long long>(size, 4 * kThreads));
  const auto launch = [&](auto of_type) {
    using T = decltype(of_type);
    fill_kernel<T><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(out), static_cast<const T*>(variance), size,
                                                    distribution, random);
  };
  switch (number) {
    case Number::kBFloat16:
      launch(__nv_bfloat16{});
      break;
    case Number::kFloat:
      launch(float{});
      break;
    case Number::kDouble:
      launch(double{});
      break;
  }
  check_launch("random fill");
}

}  // namespace

void update(const Update& call, cudaStream_t stream) {
  if (call.size % 4 != 0) throw std::runtime_error("update: the buffer's size must be a multiple of 4");
  const unsigned blocks = static_cast<unsigned>(divide_up<long long>(call.size / 4, kThreads));
  switch (call.noise) {
    case UpdateNoise::kNone:
      update_kernel<UpdateNoise::kNone><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kVariance:
      update_kernel<UpdateNoise::kVariance><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kGiven:
      update_kernel<UpdateNoise::kGiven><<<blocks, kThreads, 0, stream>>>(call);
      break;
  }
  check_launch("update");
}

void adamw_update(const AdamWUpdate& call, cudaStream_t stream) {
  if (call.size % 4 != 0) throw std::runtime_error("update: the buffer's size must be a multiple of 4");
  const unsigned blocks = static_cast<unsigned>(divide_up<long long>(call.size / 4, kThreads));
  switch (call.noise) {
    case UpdateNoise::kNone:
      adamw_kernel<UpdateNoise::kNone><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kVariance:
      adamw_kernel<UpdateNoise::kVariance><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kGiven:
      adamw_kernel<UpdateNoise::kGiven><<<blocks, kThreads, 0, stream>>>(call);
      break;
  }
  check_launch("AdamW update");
}

void group_variance(float* squares, const float* mean, float of_mean, float factor, long long size,
                    cudaStream_t stream) {
  if (size == 0) return;
  const unsigned blocks = static_cast<unsigned>(divide_up<long long>(size, kThreads));
  group_variance_kernel<<<blocks, kThreads, 0, stream>>>(squares, mean, of_mean, factor, size);
  check_launch("group variance");
}

void fill_random(void* out, Number number, long long size, Distribution distribution, const RandomStream& random,
                 cudaStream_t stream) {
  launch_fill(out, nullptr, number, size, distribution, random, stream);
}

void fill_normal_of_variance(void* out, const void* variance, Number number, long long size, const RandomStream& random,
                             cudaStream_t stream) {
  launch_fill(out, variance, number, size, Distribution::kNormal, random, stream);
}

void sample_diagonal(const DiagonalSampleTable& table, Number number, cudaStream_t stream) {
  SampleBlocks blocks{table, {}};
  unsigned end = 0;
  for (int k = 0; k < table.count; ++k) {
    end += static_cast<unsigned>(divide_up<long long>(table.samples[k].size, 4 * kThreads));
    blocks.end[k] = end;
  }
  if (end == 0) return;
  if (number == Number::kDouble) {
    sample_kernel<double><<<end, kThreads, 0, stream>>>(blocks);
  } else {
    sample_kernel<float><<<end, kThreads, 0, stream>>>(blocks);
  }
  check_launch("diagonal noise");
}

}  // namespace covnoise::cuda
