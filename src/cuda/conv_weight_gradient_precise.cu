#include "cuda/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& precise_tiles(Mode mode) {
  static const std::vector<Compiled> partial = make_tiles<float, true, Mode::kPartial>(),
                                     flush = make_tiles<float, true, Mode::kFlush>(),
                                     spatial = make_tiles<float, true, Mode::kSpatial>();
  return mode == Mode::kSpatial ? spatial : mode == Mode::kFlush ? flush : partial;
}

}  // namespace covnoise::cuda::weight_gradient_detail
