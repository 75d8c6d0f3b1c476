#pragma once
#include "cuda/types.h"

#include <cstddef>

namespace covnoise::cuda {

/// Channels-last activations [N, positions, C] in G = N / ghost_batch consecutive ghost batches.
struct GhostShape {
  int examples = 0, positions = 0, channels = 0, ghost_batch = 0;
  Scalar scalar = Scalar::kBFloat16;

  int ghosts() const { return examples / ghost_batch; }
  std::size_t values() const { return static_cast<std::size_t>(ghosts()) * channels; }  ///< of a [G, C] array
};

/// Mean and sum of squared deviations [G parts, C] and number of values [G parts] of `parts` pieces of each ghost
/// batch.
struct GhostPartials {
  float *mean = nullptr, *m2 = nullptr, *count = nullptr;
  int parts = 0;
};

/// The statistics of a layer and what follows from them. Arrays [G, C].
struct GhostStatistics {
  float *mean = nullptr, *rstd = nullptr;    ///< rstd = 1 / sqrt(biased variance + eps)
  float* variance = nullptr;                 ///< biased
  float *scale = nullptr, *shift = nullptr;  ///< y = x scale + shift: scale = weight rstd, shift = bias - mean scale
};

int ghost_norm_parts(const GhostShape& shape);
/// Statistics of x, in pieces.
void ghost_norm_partials(const GhostShape& shape, const void* x, const GhostPartials& out, cudaStream_t stream);
/// Joins the pieces. weight and bias [C].
void ghost_norm_finish(const GhostShape& shape, const GhostPartials& partials, const float* weight, const float* bias,
                       float eps, const GhostStatistics& out, cudaStream_t stream);
/// As if the ghost batches had been batches in turn: running <- (1 - momentum) running + momentum value for each,
/// with the unbiased variance. [C].
void ghost_norm_running(const GhostShape& shape, const GhostStatistics& statistics, float momentum, float* running_mean,
                        float* running_variance, cudaStream_t stream);
/// y = relu(x scale + shift + residual); ReLU and residual optional. Evaluation: one ghost batch of everything.
void ghost_norm_apply(const GhostShape& shape, const void* x, const void* residual, bool relu,
                      const GhostStatistics& statistics, void* y, cudaStream_t stream);

/// The backward pass of y = relu(weight xhat + bias + residual), xhat = (x - mean) rstd. With d the gradient dy where
/// the ReLU passed it, n the values of a ghost batch, and sums over a ghost batch,
///
///     dx = weight rstd (d - sum(d) / n - xhat sum(d xhat) / n),     dresidual = d,
///     dweight = sum over everything of d xhat,                      dbias = sum of d,
///     dweight_squares += the sum over groups of (sum over the group of d xhat)^2, and dbias_squares of d,
///
/// a group being one example or one ghost batch.
struct GhostNormBackward {
  GhostShape shape;
  const void *x = nullptr, *dy = nullptr;
  const void* y = nullptr;  ///< the output; needed only with a ReLU and a residual
  const float* weight = nullptr;
  GhostStatistics statistics;  ///< of the forward pass: mean, rstd, scale, shift
  bool relu = false, residual = false;
  void *dx = nullptr, *dresidual = nullptr;
  float *dweight = nullptr, *dbias = nullptr;
  float *dweight_squares = nullptr, *dbias_squares = nullptr;  ///< added to; null: not needed
  bool squares_per_example = false;                            ///< otherwise per ghost batch
  float* workspace = nullptr;                                  ///< ghost_norm_backward_workspace() bytes
};
std::size_t ghost_norm_backward_workspace(const GhostNormBackward& call);
void ghost_norm_backward(const GhostNormBackward& call, cudaStream_t stream);

}  // namespace covnoise::cuda
