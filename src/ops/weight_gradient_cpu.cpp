#include "ops/weight_gradient_cpu.h"

#include "ops/weight_gradient_worker.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

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

/// make_worker() once on each thread, then worker(task) for every task, whoever is free. Tasks share no results, so the
/// order does not matter.
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
void run(const Plan& plan, const Kernels<T>& kernels, const at::Tensor& x, const at::Tensor& dz, bool square_operands,
         const at::Tensor& sums, const at::Tensor& squares) {
  const std::int64_t parts = plan.parts.size();
  const at::Tensor slices = at::zeros({2, plan.slices, plan.packed_size}, x.options());
  T* slice_sums = slices.data_ptr<T>();
  T* slice_squares = slice_sums + plan.slices * plan.packed_size;
  run_tasks(parts * plan.slices, [&] {
    auto worker = std::make_shared<Worker<T>>(plan, kernels, x.data_ptr<T>(), dz.data_ptr<T>(), square_operands);
    return [&, worker](std::int64_t task) {
      const std::int64_t slice = task % plan.slices;
      const Part& part = plan.parts[task / plan.slices];
      const std::int64_t offset = slice * plan.packed_size + part.offset;
      worker->run(part, slice, slice_sums + offset, slice_squares + offset);
    };
  });
  run_tasks(2 * parts, [&] {
    return [&](std::int64_t task) {
      const bool square = task >= parts;
      reduce_part<T>(plan, plan.parts[task % parts], square ? slice_squares : slice_sums,
                     (square ? squares : sums).template data_ptr<T>());
    };
  });
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

std::tuple<at::Tensor, at::Tensor> gradient_squares(const Convolution& convolution, const at::Tensor& x,
                                                    const at::Tensor& dz, std::int64_t examples_per_group,
                                                    bool square_operands, InstructionSet instruction_set) {
  const std::int64_t outputs = convolution.groups * convolution.outputs;
  const at::Tensor sums = at::empty({outputs, convolution.channels, convolution.kernel()}, x.options());
  const at::Tensor squares = at::empty_like(sums);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "covnoise weight gradient", [&] {
    const Kernels<scalar_t>& kernels = kernels_of<scalar_t>(instruction_set);
    const Plan plan = make_plan(convolution, examples_per_group, kernels.lanes, kernels.half_lanes);
    run<scalar_t>(plan, kernels, x, dz, square_operands, sums, squares);
  });
  return {sums, squares};
}

}  // namespace covnoise::weight_gradient
