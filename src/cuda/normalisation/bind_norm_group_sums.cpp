#include "cuda/bind.h"
#include "ops/portable/portable.h"

#include <torch/library.h>

namespace covnoise::cuda {
namespace {

std::tuple<at::Tensor, at::Tensor> group_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean,
                                              const at::Tensor& rstd, std::int64_t examples_per_group) {
  const c10::cuda::CUDAGuard guard(x.device());
  return portable::norm_group_sums(dy, x, mean, rstd, examples_per_group);
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) { m.impl("norm_group_sums", group_sums); }

}  // namespace covnoise::cuda
