#include "ops/weight_gradient/weight_gradient_vector.h"

namespace covnoise::weight_gradient {

template <typename T>
const Kernels<T>& avx2_kernels() {
  static const Kernels<T> kernels = make_kernels<T, 32, 16, 8, 4, 8>();
  return kernels;
}
template const Kernels<float>& avx2_kernels<float>();
template const Kernels<double>& avx2_kernels<double>();

}  // namespace covnoise::weight_gradient
