#include "ops/weight_gradient/weight_gradient_vector.h"

namespace covnoise::weight_gradient {

template <typename T>
const Kernels<T>& portable_kernels() {
  static const Kernels<T> kernels = make_kernels<T, 16, 16, 8, 4, 8>();
  return kernels;
}
template const Kernels<float>& portable_kernels<float>();
template const Kernels<double>& portable_kernels<double>();

}  // namespace covnoise::weight_gradient
