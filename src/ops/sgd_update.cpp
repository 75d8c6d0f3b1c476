#include "covnoise/ops/sgd_update.h"

#include "covnoise/ops/random.h"
#include "ops/update_loop.h"

#include <ATen/Dispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace covnoise {
namespace {

template <typename T>
struct Buffers {
  T* values;
  const T* gradient;
  T* momentum;
};

/// The scalars of an update in the type of its buffers.
template <typename T>
struct Rule {
  T lr, mu, decay, clip, in_gradient, in_update;
};

/// Updates elements [begin, end); noise[0] is that of `begin`. What a rule leaves out is known at compile time, so that
/// the compiler vectorises the loop.
template <typename T, bool kMomentum, bool kNesterov>
void update_range(std::int64_t begin, std::int64_t end, const Buffers<T>& at, const T* noise, const Rule<T>& rule) {
  for (std::int64_t i = begin; i < end; ++i) {
    const T n = noise ? rule.clip * noise[i - begin] : T(0);
    const T d = rule.clip * at.gradient[i] + rule.in_gradient * n + rule.decay * at.values[i];
    T direction = d;
    if (kMomentum) {
      const T b = rule.mu * at.momentum[i] + d;
      at.momentum[i] = b;
      direction = kNesterov ? d + rule.mu * b : b;
    }
    at.values[i] -= rule.lr * (direction + rule.in_update * n);
  }
}

void update_cpu(at::Tensor values, const at::Tensor& gradient, at::Tensor momentum, const OptionalTensor& noise,
                const OptionalTensor& variance, double noise_scale, std::int64_t seed, std::int64_t step, double lr,
                double mu, double weight_decay, const OptionalTensor& clip, bool nesterov, bool noise_in_gradient) {
  for (const auto& buffer : {OptionalTensor(gradient), OptionalTensor(momentum), noise, variance})
    update_loop::check_buffer(buffer, values);
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "covnoise sgd update", [&] {
    using T = scalar_t;
    const Buffers<T> buffers{values.data_ptr<T>(), gradient.data_ptr<T>(), momentum.data_ptr<T>()};
    const Rule<T> rule{static_cast<T>(lr),
                       static_cast<T>(mu),
                       static_cast<T>(weight_decay),
                       clip.has_value() ? clip->item<T>() : T(1),
                       noise_in_gradient ? T(1) : T(0),
                       noise_in_gradient ? T(0) : T(1)};
    const auto range = mu == 0    ? update_range<T, false, false>
                       : nesterov ? update_range<T, true, true>
                                  : update_range<T, true, false>;
    const RandomStream stream{static_cast<std::uint64_t>(seed), Purpose::kNoise, static_cast<std::uint32_t>(step)};
    update_loop::update_all<T>(
        values.numel(), noise, variance, noise_scale, stream,
        [&](std::int64_t begin, std::int64_t end, const T* n) { range(begin, end, buffers, n, rule); });
  });
}

}  // namespace

at::Tensor StepNoise::tensor() const {
  if (!variance.defined()) return values;
  auto noise = at::empty_like(variance);
  fill_normal_of_variance(noise, variance, stream);
  return noise.mul_(scale);
}

at::Tensor clip_factor(const at::Tensor& vector, double longest) {
  return vector.norm().to(at::kDouble).reciprocal_().mul_(longest).clamp_max_(1);
}

void sgd_update(at::Tensor& values, const at::Tensor& gradient, at::Tensor& momentum, const StepNoise& noise,
                const SgdUpdate& update) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::sgd_update", "").typed<decltype(update_cpu)>();
  update_loop::check_stream(noise.variance.defined(), noise.stream);
  op.call(values, gradient, momentum, if_defined(noise.values), if_defined(noise.variance), noise.scale,
          static_cast<std::int64_t>(noise.stream.seed), noise.stream.step, update.lr, update.momentum,
          update.weight_decay, if_defined(update.clip), update.nesterov, update.noise_in_gradient);
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "sgd_update(Tensor(a!) values, Tensor gradient, Tensor(b!) momentum, Tensor? noise, Tensor? variance, "
      "float noise_scale, int seed, int step, float lr, float mu, float weight_decay, Tensor? clip, bool nesterov, "
      "bool noise_in_gradient) -> ()");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("sgd_update", update_cpu); }

}  // namespace covnoise
