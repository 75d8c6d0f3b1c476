#pragma once
#include "cuda/types.h"

#include <cstdint>

namespace covnoise::cuda {

constexpr int kMostImageChannels = 4;

/// A batch from a data set in device memory, as data/loader.h makes it: pad by 4 black pixels, crop at a random
/// offset, flip with probability 1/2 (words 0, 1, 2 of block `example` of the stream (seed, augmentation, epoch)),
/// then (pixel / 255 - mean) / std = pixel scale + shift. Channels-last.
struct Augmentation {
  const std::uint8_t* images = nullptr;   ///< [examples of the set, C, H, W]
  const std::int64_t* indices = nullptr;  ///< [examples], into the set
  std::uint32_t epoch = 0;                ///< step of the augmentation's stream
  int examples = 0, channels = 0, height = 0, width = 0;
  bool augment = true;
  std::uint64_t seed = 0;
  float scale[kMostImageChannels] = {}, shift[kMostImageChannels] = {};  ///< 1 / (255 std) and -mean / std
  Scalar scalar = Scalar::kBFloat16;
  void* out = nullptr;  ///< [examples, H, W, C]
};
void load_batch(const Augmentation& call, cudaStream_t stream);

}  // namespace covnoise::cuda
