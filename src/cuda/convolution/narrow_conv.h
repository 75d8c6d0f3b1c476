#pragma once
#include "cuda/types.h"

#include <cstddef>

namespace covnoise::cuda {

/// Forward and input gradient of 3x3 convolutions, padding 1, stride 1 or 2, with 16, 32 or 64 outputs and at most 64
/// channels (16, 32, 64; or fewer than 16, forward only), channels-last in bf16, or in float32 with inputs and weights
/// rounded to tf32 (at most 32 channels), with float32 sums:
///
///     forward          y[n, i, j, o]  = sum over c, kh, kw of x[n, s i + kh - 1, s j + kw - 1, c] w[o, c, kh, kw]
///     input gradient   dx[n, i, j, c] = the sum of dz[n, i', j', o] w[o, c, kh, kw] over all that (i, j) went into
///
/// The input patch is staged once for all nine offsets.
struct NarrowConvolution {
  Scalar scalar = Scalar::kBFloat16;
  int examples = 0, height = 0, width = 0;  ///< of x
  int channels = 0, outputs = 0, stride = 1;
  bool input_gradient = false;

  const void* input = nullptr;    ///< x [N, H, W, C], or dz [N, Ho, Wo, O]
  const void* weights = nullptr;  ///< by pack_weights
  void* output = nullptr;         ///< y [N, Ho, Wo, O], or dx [N, H, W, C]

  int out_height() const { return (height - 1) / stride + 1; }
  int out_width() const { return (width - 1) / stride + 1; }
};

bool narrow_conv_supports(const NarrowConvolution& call);
void narrow_conv(const NarrowConvolution& call, cudaStream_t stream);

/// Packs the weights [O, C, 3, 3] of a convolution, float32, in the order that narrow_conv loads.
void pack_weights(const NarrowConvolution& call, const float* weight, void* packed, cudaStream_t stream);
std::size_t packed_weight_bytes(const NarrowConvolution& call);

}  // namespace covnoise::cuda
