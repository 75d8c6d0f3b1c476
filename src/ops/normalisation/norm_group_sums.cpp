#include "covnoise/ops/norm_group_sums.h"

#include "ops/portable/portable.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace covnoise {

NormGroupSums norm_group_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                              std::int64_t examples_per_group) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::norm_group_sums", "")
                             .typed<decltype(portable::norm_group_sums)>();
  auto [sums, gradients, moments] = op.call(dy, x, mean, rstd, examples_per_group);
  return {sums, gradients, moments};
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "norm_group_sums(Tensor dy, Tensor x, Tensor mean, Tensor rstd, int examples_per_group) -> (Tensor sums, Tensor "
      "gradients, Tensor moments)");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("norm_group_sums", portable::norm_group_sums); }

}  // namespace covnoise
