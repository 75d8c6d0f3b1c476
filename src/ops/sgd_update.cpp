#include "covnoise/ops/sgd_update.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

namespace covnoise {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

/// The update of elements [begin, end); what a rule leaves out is known at compile time, so that the loop is a vector
/// one.
template <typename T, bool kMomentum, bool kNesterov>
void update_range(std::int64_t begin, std::int64_t end, T* values, const T* gradient, T* momentum, const T* noise,
                  const SgdUpdate& u) {
  const T lr = static_cast<T>(u.lr), mu = static_cast<T>(u.momentum), decay = static_cast<T>(u.weight_decay);
  const T factor = static_cast<T>(u.gradient_factor);
  const T in_gradient = u.noise_in_gradient ? 1 : 0, in_update = u.noise_in_gradient ? 0 : 1;
  for (std::int64_t i = begin; i < end; ++i) {
    const T n = noise ? noise[i] : T(0);
    const T d = factor * gradient[i] + in_gradient * n + decay * values[i];
    T direction = d;
    if (kMomentum) {
      const T b = mu * momentum[i] + d;
      momentum[i] = b;
      direction = kNesterov ? d + mu * b : b;
    }
    values[i] -= lr * (direction + in_update * n);
  }
}

}  // namespace

void sgd_update(at::Tensor& values, const at::Tensor& gradient, at::Tensor& momentum, const at::Tensor& noise,
                const SgdUpdate& update) {
  for (const at::Tensor* other : {&gradient, static_cast<const at::Tensor*>(&momentum), &noise}) {
    TORCH_CHECK(!other->defined() || (other->is_contiguous() && other->numel() == values.numel() &&
                                      other->scalar_type() == values.scalar_type() && other->device().is_cpu()),
                "the update needs contiguous buffers of one size and type on the CPU");
  }
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "covnoise sgd update", [&] {
    auto* theta = values.data_ptr<scalar_t>();
    auto* buffer = momentum.data_ptr<scalar_t>();
    const auto* g = gradient.data_ptr<scalar_t>();
    const auto* n = noise.defined() ? noise.data_ptr<scalar_t>() : nullptr;
    const auto range = update.momentum == 0 ? update_range<scalar_t, false, false>
                       : update.nesterov    ? update_range<scalar_t, true, true>
                                            : update_range<scalar_t, true, false>;
    at::parallel_for(0, values.numel(), kGrain,
                     [&](std::int64_t begin, std::int64_t end) { range(begin, end, theta, g, buffer, n, update); });
  });
}

}  // namespace covnoise
