#pragma once
#include "cuda/weight_gradient/conv_weight_gradient_kernel.cuh"

#include <vector>

// The tiles compiled for one type and mode, in the order in which the plan tries them.
namespace covnoise::cuda::weight_gradient_detail {

template <class T, bool kPrecise, Mode kMode>
std::vector<Compiled> make_tiles() {
  // Squares double the registers again: smaller tiles per warp, and none of 64.
  constexpr bool kFlush = kMode == Mode::kFlush;
  std::vector<Compiled> tiles = {
      compiled<Tile<T, kPrecise, 16, 16, 3, 3, 1, 1, kMode>>(),
      compiled<Tile<T, kPrecise, 32, 32, 3, 3, kFlush ? 2 : 1, 2, kMode>>(),
  };
  if constexpr (kMode == Mode::kPartial) tiles.push_back(compiled<Tile<T, kPrecise, 64, 64, 3, 3, 2, 2, kMode>>());
  if constexpr (kMode == Mode::kSpatial) tiles.push_back(compiled<Tile<T, kPrecise, 64, 64, 3, 1, 2, 4, kMode>>());
  tiles.push_back(compiled<Tile<T, kPrecise, 64, 64, 1, 1, 2, 2, kMode>>());
  tiles.push_back(compiled<Tile<T, kPrecise, 32, 16, 5, 5, 2, 1, kMode>>());
  return tiles;
}

template <class T, bool kPrecise>
const std::vector<Compiled>& tiles_of(Mode mode) {
  static const std::vector<Compiled> partial = make_tiles<T, kPrecise, Mode::kPartial>(),
                                     flush = make_tiles<T, kPrecise, Mode::kFlush>(),
                                     spatial = make_tiles<T, kPrecise, Mode::kSpatial>();
  return mode == Mode::kSpatial ? spatial : mode == Mode::kFlush ? flush : partial;
}

/// One definition per file, so that they compile in parallel.
const std::vector<Compiled>& bf16_tiles(Mode mode);
const std::vector<Compiled>& tf32_tiles(Mode mode);
const std::vector<Compiled>& precise_tiles(Mode mode);

}  // namespace covnoise::cuda::weight_gradient_detail
