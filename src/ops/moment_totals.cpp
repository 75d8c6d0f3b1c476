#include "ops/moment_totals.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

namespace covnoise {
namespace {

struct Totals {
  double squares = 0, sums = 0;
};

template <class T>
Totals totals_of(const T* sums, const T* squares, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;  // for vectors
  double of_squares[kLanes] = {}, of_sums[kLanes] = {};
  for (std::int64_t i = 0; i < count; i += kLanes)
    for (std::int64_t lane = 0; lane < std::min(kLanes, count - i); ++lane) {
      const double sum = sums[i + lane];
      of_squares[lane] += squares[i + lane], of_sums[lane] += sum * sum;
    }
  Totals totals;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) totals.squares += of_squares[lane], totals.sums += of_sums[lane];
  return totals;
}

/// In chunks that do not depend on the number of threads.
template <class T>
Totals totals_in_chunks(const T* sums, std::int64_t size) {
  constexpr std::int64_t kTotalsChunk = 16384;
  std::vector<Totals> chunks((size + kTotalsChunk - 1) / kTotalsChunk);
  at::parallel_for(0, static_cast<std::int64_t>(chunks.size()), 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c)
      chunks[c] = totals_of(sums + c * kTotalsChunk, sums + size + c * kTotalsChunk,
                            std::min(kTotalsChunk, size - c * kTotalsChunk));
  });
  Totals totals;
  for (const Totals& each : chunks) totals.squares += each.squares, totals.sums += each.sums;
  return totals;
}

at::Tensor moment_totals_cpu(at::TensorList moments, at::ArrayRef<double> weights) {
  check_moment_totals(moments, weights);
  Totals totals;
  AT_DISPATCH_FLOATING_TYPES(moments[0].scalar_type(), "moment_totals", [&] {
    for (const auto& m : moments) {
      const Totals each = totals_in_chunks(m.data_ptr<scalar_t>(), m.numel() / 2);
      totals.squares += each.squares, totals.sums += each.sums;
    }
  });
  auto result = at::empty({static_cast<std::int64_t>(weights.size() / 2)}, moments[0].options().dtype(at::kDouble));
  for (std::size_t i = 0; i < weights.size(); i += 2)
    result.data_ptr<double>()[i / 2] = weights[i] * totals.squares + weights[i + 1] * totals.sums;
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(covnoise, m) { m.def("moment_totals(Tensor[] moments, float[] weights) -> Tensor"); }

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("moment_totals", moment_totals_cpu); }

}  // namespace covnoise
