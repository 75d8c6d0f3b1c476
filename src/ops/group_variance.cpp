#include "covnoise/ops/group_variance.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>

namespace covnoise {
namespace {

void group_variance_cpu(at::Tensor squares, const at::Tensor& mean, double of_mean, double factor) {
  AT_DISPATCH_FLOATING_TYPES(squares.scalar_type(), "covnoise group variance", [&] {
    using T = scalar_t;
    T* const out = squares.data_ptr<T>();
    const T* const m = mean.data_ptr<T>();
    const T a = static_cast<T>(of_mean), b = static_cast<T>(factor);
    at::parallel_for(0, squares.numel(), at::internal::GRAIN_SIZE, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = std::max(out[i] - a * m[i] * m[i], T(0)) * b;
    });
  });
}

}  // namespace

void group_variance(at::Tensor& squares, const at::Tensor& mean, std::int64_t groups, std::int64_t size) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::group_variance", "")
                             .typed<decltype(group_variance_cpu)>();
  TORCH_CHECK(groups >= 2 && size > 0, "the variance of ", groups, " groups of ", size, " examples");
  TORCH_CHECK(squares.is_contiguous() && mean.is_contiguous() && squares.numel() == mean.numel() &&
                  squares.scalar_type() == mean.scalar_type() && squares.device() == mean.device(),
              "squares and mean must be contiguous, of one size, type and device");
  const auto g = static_cast<double>(groups), n = static_cast<double>(size);
  op.call(squares, mean, g * n * n, 1 / (n * (g - 1)));
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def("group_variance(Tensor(a!) squares, Tensor mean, float of_mean, float factor) -> ()");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("group_variance", group_variance_cpu); }

}  // namespace covnoise
