#pragma once
#include "covnoise/ops/philox.h"
#include "cuda/types.h"

#include <cstdint>

namespace covnoise::cuda {

enum class UpdateNoise {
  kNone,
  kVariance,  ///< noise_scale N(0, variance)
  kGiven,     ///< the noise itself, scale included
};

/// One step of stochastic gradient descent over all parameters in one launch (ops/sgd_update.h), with its noise:
///
///     d = clip g (+ clip n) + weight_decay theta,  b <- momentum b + d,
///     theta <- theta - lr (b (+ clip n)),  Nesterov: d + momentum b in place of b,
///
/// n in the gradient or in the update. Normal i is normal i of the stream (seed, noise, step), as on the CPU. Buffers
/// hold `size` float32, a multiple of 4, 16-byte aligned.
struct Update {
  long long size = 0;
  float *theta = nullptr, *momentum_buffer = nullptr;  ///< the buffer may be null if momentum is 0
  const float* gradient = nullptr;
  const float* clip = nullptr;  ///< one number in device memory, or null for 1
  float lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;

  UpdateNoise noise = UpdateNoise::kNone;
  bool noise_in_gradient = false;
  const float* values = nullptr;  ///< the variance, or the noise
  float noise_scale = 1;
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};
void update(const Update& call, cudaStream_t stream);

/// One step of AdamW in one launch (ops/adamw_update.h): `momentum_buffer` has the first moment, `momentum` is beta1.
struct AdamWUpdate : Update {
  float* second = nullptr;         ///< the second moment
  const float* decayed = nullptr;  ///< 1 where the weight decay holds, 0 where not; null: everywhere
  float beta2 = 0, eps = 0;
  float correction1 = 1, root_correction2 = 1;  ///< 1 - beta1^t, sqrt(1 - beta2^t)
};
void adamw_update(const AdamWUpdate& call, cudaStream_t stream);

/// squares = max(squares - of_mean mean^2, 0) factor (ops/group_variance.h).
void group_variance(float* squares, const float* mean, float of_mean, float factor, long long size,
                    cudaStream_t stream);

/// What fill_random writes: element i from normal i, or from word i, of the stream.
enum class Distribution { kNormal, kSigns, kUniform };  // in the order of ops/random.cpp
enum class Number { kBFloat16, kFloat, kDouble };
/// As ops/random.h on the CPU.
void fill_random(void* out, Number number, long long size, Distribution distribution, const RandomStream& random,
                 cudaStream_t stream);
void fill_normal_of_variance(void* out, const void* variance, Number number, long long size, const RandomStream& random,
                             cudaStream_t stream);

/// The noise of some parameters in one launch (ops/sample_diagonal.h). A table in the kernel's arguments, of 4 KB at
/// most: no copy to the device.
struct DiagonalSampleTable {
  static constexpr int kMost = 64;
  struct Sample {
    const void* moments;  ///< [2, size]
    void* out;
    long long size;
    std::uint64_t first;  ///< block of the stream
    double scale;
    int channels, positions;  ///< of images whose channels are last in `out`; otherwise 1
  };
  int count = 0;
  double of_sums = 0, factor = 1;
  RandomStream random;
  Sample samples[kMost];
};
void sample_diagonal(const DiagonalSampleTable& table, Number number, cudaStream_t stream);

}  // namespace covnoise::cuda
