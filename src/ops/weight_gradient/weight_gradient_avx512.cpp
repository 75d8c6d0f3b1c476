#include "ops/weight_gradient/weight_gradient_vector.h"

namespace covnoise::weight_gradient {

template <typename T>
const Kernels<T>& avx512_kernels() {
  static const Kernels<T> kernels = make_kernels<T, 64, 32, 8, 8, 16>();
  return kernels;
}
template const Kernels<float>& avx512_kernels<float>();
template const Kernels<double>& avx512_kernels<double>();

}  // namespace covnoise::weight_gradient
