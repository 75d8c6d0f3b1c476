#include "cuda/bind.h"
#include "cuda/kernel_choice.h"
#include "cuda/moment_totals.h"
#include "ops/moment_totals.h"
#include "ops/portable/portable.h"

#include <torch/library.h>

namespace covnoise::cuda {
namespace {

at::Tensor moment_totals(at::TensorList moments, at::ArrayRef<double> weights) {
  check_moment_totals(moments, weights);
  const c10::cuda::CUDAGuard guard(moments[0].device());
  const auto type = moments[0].scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kDouble, "moment_totals: moments are float or double, not ", type);
  TotalWeights each;
  each.count = static_cast<int>(weights.size() / 2);
  TORCH_CHECK(each.count <= kMostTotals, "moment_totals: at most ", 2 * kMostTotals, " weights");
  for (int i = 0; i < each.count; ++i) each.of_squares[i] = weights[2 * i], each.of_sums[i] = weights[2 * i + 1];
  if (kernels_of(moments[0].device()) == GpuKernels::kNone) return portable::moment_totals(moments, weights);
  unsigned blocks = 0;
  for (const auto& m : moments) blocks += partial_totals(m.numel() / 2);
  const auto options = moments[0].options().dtype(at::kDouble);
  const auto partial = at::empty({2 * static_cast<std::int64_t>(blocks)}, options);
  auto result = at::empty({each.count}, options);
  MomentTable table;
  double* target = partial.data_ptr<double>();
  unsigned of_table = 0;
  for (std::size_t k = 0; k < moments.size(); ++k) {
    table.moments[table.count++] = {moments[k].data_ptr(), moments[k].numel() / 2};
    of_table += partial_totals(moments[k].numel() / 2);
    if (table.count < MomentTable::kMost && k + 1 < moments.size()) continue;
    add_partial_totals(table, type == at::kDouble, target, current_stream());
    target += 2 * of_table;
    table.count = 0, of_table = 0;
  }
  add_totals(partial.data_ptr<double>(), blocks, each, result.data_ptr<double>(), current_stream());
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) { m.impl("moment_totals", moment_totals); }

}  // namespace covnoise::cuda
