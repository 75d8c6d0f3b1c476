#pragma once
#include "cuda/types.h"

#include <cstdint>

namespace covnoise::cuda {

/// What changes from step to step, in device memory: a captured graph replays with whatever stands there.
struct StepScalars {
  float lr;
  float noise_scale;  ///< s of the design; 0: no noise in this step
  float clip;         ///< factor on the mean gradient, before noise and weight decay; 1: none
  std::uint32_t step;
};

enum class UpdateNoise {
  kNone,
  kSquares,   ///< N(0, s^2 diagonal), diagonal = max(0, squares + centre mean^2) square_factor
  kDiagonal,  ///< N(0, s^2 diagonal), the diagonal given
  kGiven,     ///< the noise given, scale included
};

/// One step of stochastic gradient descent over all parameters in one launch (train/sgd.h), with its noise:
///
///     g = gradient mean_factor,  d = clip g (+ n) + weight_decay theta,  b <- momentum b + d,
///     theta <- theta - lr (b (+ n)),  Nesterov: d + momentum b in place of b,
///
/// n in one of the two places. Normal i is normal i of the stream (seed, noise, step), as on the CPU. Buffers hold
/// `size` float32, a multiple of 4, 16-byte aligned.
struct Update {
  long long size = 0;
  float *theta = nullptr, *momentum_buffer = nullptr;  ///< the buffer may be null if momentum is 0
  float* gradient = nullptr;
  float mean_factor = 1;  ///< 1 / examples where the gradient is a sum
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;

  UpdateNoise noise = UpdateNoise::kNone;
  bool noise_in_gradient = false;
  float* squares = nullptr;  ///< kSquares
  /// exact: 0 and 1 / M. ghost: -M^2 / G and 1 / (M_S (G - 1)), with G = M / M_S ghost batches.
  float centre = 0, square_factor = 1;
  float* diagonal = nullptr;     ///< kDiagonal: read; kSquares: written if not null
  const float* given = nullptr;  ///< kGiven
  std::uint64_t seed = 0;

  const StepScalars* scalars = nullptr;  ///< device memory
  void* bf16_copy = nullptr;             ///< theta in bf16, or null
  bool clear = false;                    ///< leave gradient and squares at zero for the next step
};
void update(const Update& call, cudaStream_t stream);

/// scalars->clip = min(1, limit / |mean_factor gradient|). `workspace` has kNormBlocks doubles.
constexpr int kNormBlocks = 256;
void clip_factor(const float* gradient, long long size, float mean_factor, float limit, double* workspace,
                 StepScalars* scalars, cudaStream_t stream);

}  // namespace covnoise::cuda
