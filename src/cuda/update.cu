#include "cuda/update.h"

#include "covnoise/ops/philox.h"

#include <cuda_bf16.h>

#include <algorithm>

namespace covnoise::cuda {
namespace {

constexpr int kThreads = 256;

struct Four {
  float v[4];
};

__device__ Four load(const float* source, long long block) {
  const float4 values = reinterpret_cast<const float4*>(source)[block];
  return {{values.x, values.y, values.z, values.w}};
}
__device__ void store(float* target, long long block, const Four& f) {
  reinterpret_cast<float4*>(target)[block] = make_float4(f.v[0], f.v[1], f.v[2], f.v[3]);
}

/// Normals 4 block to 4 block + 3 of the stream, as fill_normal orders them.
__device__ Four normals(const RandomStream& stream, long long block) {
  const Philox4 words = stream.words(static_cast<std::uint64_t>(block));
  const NormalPair first = normal_pair(words.x[0], words.x[1]), second = normal_pair(words.x[2], words.x[3]);
  return {{first.first, first.second, second.first, second.second}};
}

/// The noise of one block of four, with the scale.
template <UpdateNoise kNoise>
__device__ Four draw(const Update& u, const StepScalars& s, long long block, const Four& mean) {
  if constexpr (kNoise == UpdateNoise::kNone) return {};
  if constexpr (kNoise == UpdateNoise::kGiven) return load(u.given, block);
  if (s.noise_scale == 0) return {};
  Four variance = load(kNoise == UpdateNoise::kSquares ? u.squares : u.diagonal, block);
  if constexpr (kNoise == UpdateNoise::kSquares) {
    for (int i = 0; i < 4; ++i)
      variance.v[i] = fmaxf(fmaf(u.centre, mean.v[i] * mean.v[i], variance.v[i]), 0.0f) * u.square_factor;
    if (u.diagonal) store(u.diagonal, block, variance);
  }
  Four n = normals({u.seed, Purpose::kNoise, s.step}, block);
  for (int i = 0; i < 4; ++i) n.v[i] *= sqrtf(variance.v[i]) * s.noise_scale;
  return n;
}

template <UpdateNoise kNoise>
__global__ void __launch_bounds__(kThreads) update_kernel(const __grid_constant__ Update u) {
  const StepScalars s = *u.scalars;
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (4 * block >= u.size) return;
  Four theta = load(u.theta, block), g = load(u.gradient, block), b{};
  if (u.momentum != 0) b = load(u.momentum_buffer, block);
#pragma unroll
  for (int i = 0; i < 4; ++i) g.v[i] *= u.mean_factor;
  const Four n = draw<kNoise>(u, s, block, g);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float d = g.v[i] * s.clip;
    if (u.noise_in_gradient) d += n.v[i];
    d = fmaf(u.weight_decay, theta.v[i], d);
    float step = d;
    if (u.momentum != 0) {
      b.v[i] = fmaf(u.momentum, b.v[i], d);
      step = u.nesterov ? fmaf(u.momentum, b.v[i], d) : b.v[i];
    }
    theta.v[i] = fmaf(-s.lr, step, theta.v[i]);
    if (!u.noise_in_gradient) theta.v[i] = fmaf(-s.lr, n.v[i], theta.v[i]);
  }
  store(u.theta, block, theta);
  if (u.momentum != 0) store(u.momentum_buffer, block, b);
  if (u.bf16_copy) {
    union {
      __nv_bfloat162 pairs[2];
      uint2 bytes;
    } copy;
    copy.pairs[0] = __floats2bfloat162_rn(theta.v[0], theta.v[1]);
    copy.pairs[1] = __floats2bfloat162_rn(theta.v[2], theta.v[3]);
    static_cast<uint2*>(u.bf16_copy)[block] = copy.bytes;
  }
  if (u.clear) {
    store(u.gradient, block, {});
    if (u.squares) store(u.squares, block, {});
  }
}

/// Sums of squares of fixed ranges, in double.
__global__ void __launch_bounds__(kThreads) norm_kernel(const float* gradient, long long size, double* workspace) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += static_cast<long long>(kNormBlocks) * kThreads)
    sum += static_cast<double>(gradient[i]) * gradient[i];
  shared[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) workspace[blockIdx.x] = shared[0];
}

__global__ void clip_kernel(const double* workspace, float mean_factor, float limit, StepScalars* scalars) {
  double sum = 0;
  for (int i = 0; i < kNormBlocks; ++i) sum += workspace[i];
  const double norm = sqrt(sum) * mean_factor;
  scalars->clip = norm > limit ? static_cast<float>(limit / norm) : 1.0f;
}

}  // namespace

void update(const Update& call, cudaStream_t stream) {
  if (call.size % 4 != 0) throw std::runtime_error("update: the buffer's size must be a multiple of 4");
  const unsigned blocks = static_cast<unsigned>(divide_up<long long>(call.size / 4, kThreads));
  switch (call.noise) {
    case UpdateNoise::kNone:
      update_kernel<UpdateNoise::kNone><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kSquares:
      update_kernel<UpdateNoise::kSquares><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kDiagonal:
      update_kernel<UpdateNoise::kDiagonal><<<blocks, kThreads, 0, stream>>>(call);
      break;
    case UpdateNoise::kGiven:
      update_kernel<UpdateNoise::kGiven><<<blocks, kThreads, 0, stream>>>(call);
      break;
  }
  check_launch("update");
}

void clip_factor(const float* gradient, long long size, float mean_factor, float limit, double* workspace,
                 StepScalars* scalars, cudaStream_t stream) {
  norm_kernel<<<kNormBlocks, kThreads, 0, stream>>>(gradient, size, workspace);
  check_launch("gradient norm");
  clip_kernel<<<1, 1, 0, stream>>>(workspace, mean_factor, limit, scalars);
  check_launch("clip factor");
}

}  // namespace covnoise::cuda
