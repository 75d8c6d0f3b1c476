#include "cuda/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& tf32_tiles(Mode mode) {
  static const std::vector<Compiled> partial = make_tiles<float, false, Mode::kPartial>(),
                                     flush = make_tiles<float, false, Mode::kFlush>(),
                                     spatial = make_tiles<float, false, Mode::kSpatial>();
  return mode == Mode::kSpatial ? spatial : mode == Mode::kFlush ? flush : partial;
}

}  // namespace covnoise::cuda::weight_gradient_detail
