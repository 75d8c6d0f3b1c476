#include "cuda/weight_gradient/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& tf32_tiles(Mode mode) { return tiles_of<float, false>(mode); }

}  // namespace covnoise::cuda::weight_gradient_detail
