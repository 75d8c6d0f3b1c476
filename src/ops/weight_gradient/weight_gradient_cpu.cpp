#include "ops/weight_gradient/weight_gradient_cpu.h"

#include "ops/weight_gradient/weight_gradient_worker.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace covnoise::weight_gradient {
namespace {

template <typename T>
const Kernels<T>& kernels_of(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kAvx512:
      return avx512_kernels<T>();
    case InstructionSet::kAvx2:
      return avx2_kernels<T>();
    case InstructionSet::kPortable:
      break;
  }
  return portable_kernels<T>();
}

/// Calls make_worker() once on each thread, then worker(task) for every task on whichever thread is free. Tasks share
/// no results, so the order does not matter.
template <typename MakeWorker>
void run_tasks(std::int64_t tasks, const MakeWorker& make_worker) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t threads = std::min<std::int64_t>(tasks, at::get_num_threads());
  at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) {
    std::int64_t task = next++;
    if (task >= tasks) return;
    auto worker = make_worker();
    for (; task < tasks; task = next++) worker(task);
  });
}

template <typename T>
struct Operation {
  const Plan& plan;
  const Kernels<T>& kernels;
  const T *x, *dz;
  SquaresOf squares_of;
  T *sums, *squares;  ///< of nothing: null

  std::int64_t components() const { return squares_of == SquaresOf::kNothing ? 1 : 2; }

  void run_parts() const {
    run_tasks(plan.parts.size(), [this] {
      return [this, worker = Worker<T>(plan, kernels, x, dz, squares_of)](std::int64_t task) mutable {
        worker.run_part(plan.parts[task], sums, squares);
      };
    });
  }

  /// Each slice has its own packed sums and squares, [slices][components][packed size], which are added up in order.
  void run_slices(T* slices) const {
    const std::int64_t size = components() * plan.packed_size;
    run_tasks(plan.parts.size() * plan.slices, [&] {
      return [&, worker = Worker<T>(plan, kernels, x, dz, squares_of)](std::int64_t task) mutable {
        const std::int64_t slice = task % plan.slices;
        const Part& part = plan.parts[task / plan.slices];
        T* packed = slices + slice * size + part.offset;
        worker.run_slice(part, slice, packed, components() == 1 ? nullptr : packed + plan.packed_size);
      };
    });
    at::parallel_for(0, size, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slice = 1; slice < plan.slices; ++slice) {
        const T* other = slices + slice * size;
        for (std::int64_t i = begin; i < end; ++i) slices[i] += other[i];
      }
    });
    run_tasks(plan.parts.size(), [&] {
      return [&](std::int64_t task) {
        const Part& part = plan.parts[task];
        unpack_part<T, Unpack::kWrite>(plan, part, slices + part.offset, sums);
        if (components() == 2)
          unpack_part<T, Unpack::kAdd>(plan, part, slices + plan.packed_size + part.offset, squares);
      };
    });
  }
};

at::Tensor compute(Convolution convolution, const at::Tensor& x, const at::Tensor& dz, SquaresOf squares_of,
                   const at::Tensor& squares, std::int64_t examples_per_group, InstructionSet instruction_set) {
  at::Tensor sums =
      at::empty({convolution.groups * convolution.outputs, convolution.channels, convolution.kernel()}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "covnoise weight gradient", [&] {
    const Kernels<scalar_t>& kernels = kernels_of<scalar_t>(instruction_set);
    const scalar_t *input = x.data_ptr<scalar_t>(), *derivative = dz.data_ptr<scalar_t>();
    // A weight without kernel offsets has its inputs side by side: with vectors of inputs nothing is to be transposed.
    const bool transposed = convolution.is_linear() && convolution.channels >= 2 * kernels.lanes;
    if (transposed) std::swap(convolution.channels, convolution.outputs), std::swap(input, derivative);
    const Plan plan = make_plan(convolution, examples_per_group, transposed, kernels.lanes, kernels.half_lanes);
    const Operation<scalar_t> operation{plan,
                                        kernels,
                                        input,
                                        derivative,
                                        squares_of,
                                        sums.data_ptr<scalar_t>(),
                                        squares.defined() ? squares.data_ptr<scalar_t>() : nullptr};
    if (plan.slices == 1) return operation.run_parts();
    const at::Tensor slices = at::empty({plan.slices, operation.components(), plan.packed_size}, x.options());
    operation.run_slices(slices.data_ptr<scalar_t>());
  });
  return sums;
}

}  // namespace

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets{InstructionSet::kPortable};
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) sets.push_back(InstructionSet::kAvx2);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    sets.push_back(InstructionSet::kAvx512);
  return sets;
}

at::Tensor gradient(const Convolution& convolution, const at::Tensor& x, const at::Tensor& dz,
                    InstructionSet instruction_set) {
  return compute(convolution, x, dz, SquaresOf::kNothing, {}, 1, instruction_set);
}

at::Tensor gradient_squares(const Convolution& convolution, const at::Tensor& x, const at::Tensor& dz,
                            const at::Tensor& squares, std::int64_t examples_per_group,
                            InstructionSet instruction_set) {
  if (examples_per_group == kEachPosition)
    return compute(convolution, x, dz, SquaresOf::kPositions, squares, 1, instruction_set);
  return compute(convolution, x, dz, SquaresOf::kGroups, squares, examples_per_group, instruction_set);
}

}  // namespace covnoise::weight_gradient
