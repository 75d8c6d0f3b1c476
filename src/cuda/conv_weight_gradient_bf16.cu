#include "cuda/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& bf16_tiles(Mode mode) {
  using T = __nv_bfloat16;
  static const std::vector<Compiled> partial = make_tiles<T, false, Mode::kPartial>(),
                                     flush = make_tiles<T, false, Mode::kFlush>(),
                                     spatial = make_tiles<T, false, Mode::kSpatial>();
  return mode == Mode::kSpatial ? spatial : mode == Mode::kFlush ? flush : partial;
}

}  // namespace covnoise::cuda::weight_gradient_detail
