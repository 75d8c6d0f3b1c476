#include "cuda/bind.h"
#include "cuda/kernel_choice.h"
#include "cuda/normalisation/norm_sums.h"
#include "ops/normalisation/norm_group_shape.h"
#include "ops/portable/portable.h"

#include <torch/library.h>

namespace covnoise::cuda {
namespace {

bool takes(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

/// 16 bytes are loaded at once.
bool aligned(const at::Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 16 == 0; }

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_sums(const at::Tensor& dy_any, const at::Tensor& x_any,
                                                          const at::Tensor& mean_any, const at::Tensor& rstd_any,
                                                          std::int64_t examples_per_group) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const auto shape = norm_group_shape(dy_any, x_any, mean_any, rstd_any, examples_per_group);
  const bool planes = !x_any.is_contiguous();
  const bool fits = has_general_kernels(x_any) && takes(x_any) && takes(dy_any) && shape.rows() < (1 << 30) &&
                    (!planes || (x_any.transpose(1, 2).is_contiguous() && !shape.by_row()));
  if (!fits) return portable::norm_group_sums(dy_any, x_any, mean_any, rstd_any, examples_per_group);
  const auto type = at::promote_types(x_any.scalar_type(), dy_any.scalar_type());
  const auto laid_out = [&](const at::Tensor& tensor) {
    const auto result = (planes ? tensor.transpose(1, 2) : tensor).to(type).contiguous();
    return aligned(result) ? result : result.clone();
  };
  const auto dy = laid_out(dy_any), x = laid_out(x_any);
  const auto mean = mean_any.to(at::kFloat).contiguous(), rstd = rstd_any.to(at::kFloat).contiguous();
  const auto floats = x.options().dtype(at::kFloat);
  auto sums = at::empty({2, shape.groups(), shape.channels}, floats);
  auto gradients = at::empty({2, shape.channels}, floats), moments = at::empty({2, 2, shape.channels}, floats);
  NormSums call;
  call.examples = static_cast<int>(shape.examples), call.positions = static_cast<int>(shape.positions);
  call.channels = static_cast<int>(shape.channels), call.group = static_cast<int>(shape.group);
  call.last_weight = static_cast<float>(shape.last_weight);
  call.scalar = scalar_of(x), call.planes = planes;
  call.dy = dy.data_ptr(), call.x = x.data_ptr();
  call.mean = mean.data_ptr<float>(), call.rstd = rstd.data_ptr<float>();
  call.statistic_rows = static_cast<int>(shape.statistic_rows);
  call.statistic_channels = static_cast<int>(shape.statistic_channels);
  call.sums = sums.data_ptr<float>();
  call.gradients = gradients.data_ptr<float>(), call.moments = moments.data_ptr<float>();
  const auto space = workspace(norm_sums_workspace(call), x);
  call.workspace = static_cast<float*>(space.data_ptr());
  norm_sums(call, current_stream());
  return {sums, gradients, moments};
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) { m.impl("norm_group_sums", group_sums); }

}  // namespace covnoise::cuda
