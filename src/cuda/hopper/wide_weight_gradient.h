#pragma once
#include "cuda/weight_gradient/conv_weight_gradient.h"

namespace covnoise::cuda {

/// The weight gradient of conv_weight_gradient.h for 64 channels and more, in bf16 without stride: warpgroup products
/// (wgmma, sm_90a) on boxes of 64 positions by 64 channels, which TMA loads. `takes` says whether it
/// supports a call.
struct WideWeightGradient {
  static bool takes(const WeightGradient& call);
  static std::size_t workspace(const WeightGradient& call);  ///< bytes
  static void run(const WeightGradient& call, cudaStream_t stream);
};

}  // namespace covnoise::cuda
