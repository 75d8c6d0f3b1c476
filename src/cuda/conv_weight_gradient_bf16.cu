#include "cuda/conv_weight_gradient_tiles.cuh"

namespace covnoise::cuda::weight_gradient_detail {

const std::vector<Compiled>& bf16_tiles(Mode mode, bool prologue) {
  using T = __nv_bfloat16;
  static const std::vector<Compiled> partial = make_tiles<T, false, Mode::kPartial>(),
                                     flush = make_tiles<T, false, Mode::kFlush>(),
                                     spatial = make_tiles<T, false, Mode::kSpatial>(),
                                     partial_prologue = make_tiles<T, false, Mode::kPartial, true>(),
                                     flush_prologue = make_tiles<T, false, Mode::kFlush, true>(), none;
  if (mode == Mode::kSpatial) return prologue ? none : spatial;
  if (mode == Mode::kFlush) return prologue ? flush_prologue : flush;
  return prologue ? partial_prologue : partial;
}

}  // namespace covnoise::cuda::weight_gradient_detail
