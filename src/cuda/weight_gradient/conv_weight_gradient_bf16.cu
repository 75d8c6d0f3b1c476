#include "cuda/weight_gradient/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& bf16_tiles(Mode mode) { return tiles_of<__nv_bfloat16, false>(mode); }

}  // namespace covnoise::cuda::weight_gradient_detail
