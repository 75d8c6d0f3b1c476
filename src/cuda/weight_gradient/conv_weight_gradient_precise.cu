#include "cuda/weight_gradient/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& precise_tiles(Mode mode) { return tiles_of<float, true>(mode); }

}  // namespace covnoise::cuda::weight_gradient_detail
