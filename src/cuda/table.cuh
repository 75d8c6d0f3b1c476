#pragma once

namespace covnoise::cuda {

/// The first of `count` entries whose `end`, the number of the thread block behind it, is above this thread block's.
__device__ inline int entry_of_block(const unsigned* end, int count) {
  int entry = 0;
  for (int above = count - 1; entry < above;) {
    const int middle = (entry + above) / 2;
    if (blockIdx.x < end[middle]) {
      above = middle;
    } else {
      entry = middle + 1;
    }
  }
  return entry;
}

}  // namespace covnoise::cuda
