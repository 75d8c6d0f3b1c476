#include "covnoise/ops/adamw_update.h"

#include "ops/update_loop.h"

#include <ATen/Dispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>

namespace covnoise {
namespace {

/// The scalars of an update in the type of its buffers.
template <typename T>
struct AdamWRule {
  T lr, beta1, beta2, eps, decay, correction1, root_correction2, clip, in_gradient, in_update;
};

template <typename T>
struct AdamWBuffers {
  T *values, *first, *second;
  const T *gradient, *decayed;
};

/// Updates elements [begin, end); noise[0] is that of `begin`.
template <typename T>
void adamw_range(std::int64_t begin, std::int64_t end, const AdamWBuffers<T>& at, const T* noise,
                 const AdamWRule<T>& rule) {
  const T step = rule.lr / rule.correction1;
  for (std::int64_t i = begin; i < end; ++i) {
    const T n = noise ? rule.clip * noise[i - begin] : T(0);
    const T d = rule.clip * at.gradient[i] + rule.in_gradient * n;
    const T m = rule.beta1 * at.first[i] + (T(1) - rule.beta1) * d;
    const T v = rule.beta2 * at.second[i] + (T(1) - rule.beta2) * d * d;
    at.first[i] = m;
    at.second[i] = v;
    const T kept = at.values[i] * (T(1) - rule.lr * (at.decayed ? rule.decay * at.decayed[i] : rule.decay));
    const T root = std::sqrt(v) / rule.root_correction2 + rule.eps;
    at.values[i] = kept - step * (m + rule.in_update * rule.correction1 * n) / root;
  }
}

/// `rule`: lr, beta1, beta2, eps, weight_decay, 1 - beta1^t, sqrt(1 - beta2^t).
void adamw_cpu(at::Tensor values, const at::Tensor& gradient, at::Tensor first, at::Tensor second,
               const OptionalTensor& noise, const OptionalTensor& variance, double noise_scale, std::int64_t seed,
               std::int64_t noise_step, at::ArrayRef<double> rule, const OptionalTensor& decayed,
               const OptionalTensor& clip, bool noise_in_gradient) {
  for (const auto& buffer :
       {OptionalTensor(gradient), OptionalTensor(first), OptionalTensor(second), noise, variance, decayed})
    update_loop::check_buffer(buffer, values);
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "covnoise adamw update", [&] {
    using T = scalar_t;
    const auto number = [&](std::size_t i) { return static_cast<T>(rule[i]); };
    const AdamWBuffers<T> buffers{values.data_ptr<T>(), first.data_ptr<T>(), second.data_ptr<T>(),
                                  gradient.data_ptr<T>(), decayed.has_value() ? decayed->data_ptr<T>() : nullptr};
    const AdamWRule<T> scalars{number(0),
                               number(1),
                               number(2),
                               number(3),
                               number(4),
                               number(5),
                               number(6),
                               clip.has_value() ? clip->item<T>() : T(1),
                               noise_in_gradient ? T(1) : T(0),
                               noise_in_gradient ? T(0) : T(1)};
    const RandomStream stream{static_cast<std::uint64_t>(seed), Purpose::kNoise,
                              static_cast<std::uint32_t>(noise_step)};
    update_loop::update_all<T>(
        values.numel(), noise, variance, noise_scale, stream,
        [&](std::int64_t begin, std::int64_t end, const T* n) { adamw_range(begin, end, buffers, n, scalars); });
  });
}

}  // namespace

void adamw_update(at::Tensor& values, const at::Tensor& gradient, at::Tensor& first, at::Tensor& second,
                  const StepNoise& noise, const AdamWUpdate& update) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::adamw_update", "").typed<decltype(adamw_cpu)>();
  update_loop::check_stream(noise.variance.defined(), noise.stream);
  const auto t = static_cast<double>(update.step);
  const double rule[] = {update.lr,
                         update.beta1,
                         update.beta2,
                         update.eps,
                         update.weight_decay,
                         1 - std::pow(update.beta1, t),
                         std::sqrt(1 - std::pow(update.beta2, t))};
  op.call(values, gradient, first, second, if_defined(noise.values), if_defined(noise.variance), noise.scale,
          static_cast<std::int64_t>(noise.stream.seed), noise.stream.step, rule, if_defined(update.decayed),
          if_defined(update.clip), update.noise_in_gradient);
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "adamw_update(Tensor(a!) values, Tensor gradient, Tensor(b!) first, Tensor(c!) second, Tensor? noise, "
      "Tensor? variance, float noise_scale, int seed, int noise_step, float[] rule, Tensor? decayed, Tensor? clip, "
      "bool noise_in_gradient) -> ()");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("adamw_update", adamw_cpu); }

}  // namespace covnoise
