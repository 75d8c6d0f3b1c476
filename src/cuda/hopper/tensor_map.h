#pragma once
#include "cuda/types.h"

#include <cuda.h>

namespace covnoise::cuda {

/// Describes to TMA a patch of a channels-last tensor [N, H, W, C] whose pixels are multiples of 16 bytes:
/// boxes of `examples` x `rows` x `columns` positions of `channels` channels (32, 64 or 128 bytes), dense in shared
/// memory, swizzled as staging.cuh says, zeros outside the tensor.
struct Box {
  int channels, columns, rows, examples;
};
CUtensorMap tensor_map(Scalar scalar, const void* data, int n, int height, int width, int channels, const Box& box);

}  // namespace covnoise::cuda
