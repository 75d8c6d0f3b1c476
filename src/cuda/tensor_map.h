#pragma once
#include "cuda/types.h"

#include <cuda.h>

namespace covnoise::cuda {

/// How the copy engine finds a patch of a channels-last bf16 tensor [N, H, W, C], C a multiple of 8: boxes of
/// `examples` x `rows` x `columns` positions of `channels` (16, 32 or 64) channels, dense in shared memory, swizzled as
/// staging.cuh says, zeros outside the tensor.
struct Box {
  int channels, columns, rows, examples;
};
CUtensorMap tensor_map(const void* data, int n, int height, int width, int channels, const Box& box);

}  // namespace covnoise::cuda
