#include "covnoise/ops/ghost_batch_norm.h"

#include "covnoise/ops/internal/group_squares.h"
#include "covnoise/ops/internal/optional_tensor.h"
#include "ops/normalisation/ghost_batch_norm_kernel.h"
#include "ops/normalisation/norm_statistics.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace covnoise {
namespace {

using Normalised = std::tuple<at::Tensor, at::Tensor>;
using Tensors3 = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

const ghost_norm::KernelTable& kernel_table() {
  static const ghost_norm::KernelTable& table =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl")
          ? ghost_norm::kAvx512Kernels
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? ghost_norm::kAvx2Kernels
                                                                        : ghost_norm::kPortableKernels;
  return table;
}

template <class T>
const ghost_norm::Kernels<T>& kernels();
template <>
const ghost_norm::Kernels<float>& kernels<float>() {
  return kernel_table().for_float;
}
template <>
const ghost_norm::Kernels<double>& kernels<double>() {
  return kernel_table().for_double;
}

ghost_norm::Shape checked_shape(const at::Tensor& x, std::int64_t ghost_batch) {
  TORCH_CHECK(x.dim() == 4, "ghost batch normalisation takes images [M, C, H, W], not ", x.sizes());
  TORCH_CHECK(ghost_batch > 0 && x.size(0) > 0 && x.size(0) % ghost_batch == 0, "a batch of ", x.size(0),
              " examples is not a whole number of ghost batches of ", ghost_batch);
  const ghost_norm::Shape shape{ghost_batch, x.size(1), x.size(2) * x.size(3)};
  TORCH_CHECK(shape.count() > 1, "a ghost batch of one value per channel has no variance");
  return shape;
}

void check_like(const at::Tensor& tensor, const at::Tensor& x, at::IntArrayRef sizes, const char* name) {
  TORCH_CHECK(tensor.sizes() == sizes && tensor.scalar_type() == x.scalar_type(), "ghost batch normalisation: ", name,
              " is ", tensor.scalar_type(), " ", tensor.sizes(), ", expected ", x.scalar_type(), " ", sizes);
}

/// Number of channel ranges per ghost batch, so that the pieces divide evenly among the threads. As few as possible:
/// memory is read fastest in long rows.
std::int64_t ranges_per_ghost(const ghost_norm::Shape& shape, std::int64_t ghosts) {
  const std::int64_t threads = std::max(1, at::get_num_threads());
  return std::min(shape.channels, threads / std::gcd(ghosts, threads));
}

/// Calls work(g, begin, end, sums) for every ghost batch g and range of channels. The result of a channel does not
/// depend on its range, and so not on the number of threads.
template <class Work>
void for_each_piece(const ghost_norm::Shape& shape, std::int64_t ghosts, const Work& work) {
  const std::int64_t ranges = ranges_per_ghost(shape, ghosts), step = (shape.channels + ranges - 1) / ranges;
  at::parallel_for(0, ghosts * ranges, 1, [&](std::int64_t first, std::int64_t last) {
    std::vector<ghost_norm::ChannelSums> sums(static_cast<std::size_t>(step));
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t begin = piece % ranges * step;
      work(piece / ranges, begin, std::min(begin + step, shape.channels), sums.data());
    }
  });
}

/// For one ghost batch after another: running <- (1 - momentum) running + momentum value, for each row of `values`.
template <class T>
void update_running(at::Tensor& running, const std::vector<double>& values, double momentum) {
  const std::size_t channels = static_cast<std::size_t>(running.numel());
  auto contiguous = running.contiguous();
  T* data = contiguous.data_ptr<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    T& value = data[i % channels];
    value = static_cast<T>((1 - momentum) * static_cast<double>(value) + momentum * values[i]);
  }
  if (!contiguous.is_same(running)) running.copy_(contiguous);
}

Normalised forward_cpu(const at::Tensor& x_any, const OptionalTensor& residual, const at::Tensor& weight_any,
                       const at::Tensor& bias_any, at::Tensor running_mean, at::Tensor running_var,
                       std::int64_t ghost_batch, double momentum, double eps, bool relu) {
  const auto shape = checked_shape(x_any, ghost_batch);
  const std::int64_t ghosts = x_any.size(0) / ghost_batch, channels = shape.channels;
  check_like(weight_any, x_any, {channels}, "weight");
  check_like(bias_any, x_any, {channels}, "bias");
  check_like(running_mean, x_any, {channels}, "running_mean");
  check_like(running_var, x_any, {channels}, "running_var");
  const auto x = x_any.contiguous(), weight = weight_any.contiguous(), bias = bias_any.contiguous();
  auto y = at::empty_like(x);
  auto mean = at::empty({ghosts, channels}, x.options()), rstd = at::empty_like(mean);
  std::vector<double> means(static_cast<std::size_t>(mean.numel())), variances(means.size());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "ghost_batch_norm", [&] {
    const ghost_norm::Forward<scalar_t> all{x.data_ptr<scalar_t>(),
                                            weight.data_ptr<scalar_t>(),
                                            bias.data_ptr<scalar_t>(),
                                            y.data_ptr<scalar_t>(),
                                            mean.data_ptr<scalar_t>(),
                                            rstd.data_ptr<scalar_t>(),
                                            means.data(),
                                            variances.data(),
                                            eps};
    const std::int64_t elements = shape.count() * channels;
    for_each_piece(shape, ghosts, [&](std::int64_t g, std::int64_t begin, std::int64_t end, auto* sums) {
      auto a = all;
      a.x += g * elements, a.y += g * elements;
      a.mean += g * channels, a.rstd += g * channels;
      a.exact_mean += g * channels, a.unbiased_variance += g * channels;
      kernels<scalar_t>().forward(shape, a, begin, end, sums);
    });
    update_running<scalar_t>(running_mean, means, momentum);
    update_running<scalar_t>(running_var, variances, momentum);
  });
  if (residual.has_value()) y.add_(*residual);
  if (relu) y.relu_();
  return {y, norm_statistics(mean, rstd, eps, weight, bias)};
}

/// dx, and each example's contribution to the gradients of weight and bias [M, C].
Tensors3 backward_by_example(const at::Tensor& dy_any, const at::Tensor& x_any, const at::Tensor& weight_any,
                             const at::Tensor& statistics, std::int64_t ghost_batch) {
  const auto shape = checked_shape(x_any, ghost_batch);
  const std::int64_t examples = x_any.size(0), ghosts = examples / ghost_batch, channels = shape.channels;
  check_like(dy_any, x_any, x_any.sizes(), "the gradient");
  check_like(weight_any, x_any, {channels}, "weight");
  check_like(statistics, x_any, {kNormStatistics, ghosts, channels}, "statistics");
  const auto dy = dy_any.contiguous(), x = x_any.contiguous(), weight = weight_any.contiguous();
  const auto mean = statistics[0].contiguous(), rstd = statistics[1].contiguous();
  auto dx = at::empty_like(x);
  auto dweight = at::empty({examples, channels}, x.options()), dbias = at::empty_like(dweight);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "ghost_batch_norm_backward", [&] {
    const ghost_norm::Backward<scalar_t> all{
        dy.data_ptr<scalar_t>(),   x.data_ptr<scalar_t>(),  weight.data_ptr<scalar_t>(),  mean.data_ptr<scalar_t>(),
        rstd.data_ptr<scalar_t>(), dx.data_ptr<scalar_t>(), dweight.data_ptr<scalar_t>(), dbias.data_ptr<scalar_t>()};
    const std::int64_t elements = shape.count() * channels, rows = ghost_batch * channels;
    for_each_piece(shape, ghosts, [&](std::int64_t g, std::int64_t begin, std::int64_t end, auto* sums) {
      auto a = all;
      a.dy += g * elements, a.x += g * elements, a.dx += g * elements;
      a.mean += g * channels, a.rstd += g * channels;
      a.dweight += g * rows, a.dbias += g * rows;
      kernels<scalar_t>().backward(shape, a, begin, end, sums);
    });
  });
  return {dx, dweight, dbias};
}

Gradients backward_cpu(const at::Tensor& dy, const at::Tensor& x, const OptionalTensor& y, const at::Tensor& weight,
                       const at::Tensor& statistics, std::int64_t ghost_batch, bool relu, bool residual,
                       const OptionalTensor& weight_squares, const OptionalTensor& bias_squares,
                       std::int64_t examples_per_group) {
  TORCH_CHECK(!relu || y.has_value(), "the backward of ghost batch normalisation with a ReLU needs its output");
  const auto d = relu ? at::threshold_backward(dy, *y, 0) : dy;
  const auto [dx, dweight, dbias] = backward_by_example(d, x, weight, statistics, ghost_batch);
  if (weight_squares.has_value()) weight_squares->add_(group_squares(dweight, examples_per_group));
  if (bias_squares.has_value()) bias_squares->add_(group_squares(dbias, examples_per_group));
  return {dx, !residual ? nothing_like(dx) : relu ? d : d.clone(), dweight.sum(0), dbias.sum(0)};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> ghost_batch_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, at::Tensor running_mean,
                                                    at::Tensor running_var, const GhostNorm& norm,
                                                    const at::Tensor& residual) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::ghost_batch_norm", "").typed<decltype(forward_cpu)>();
  return op.call(x, if_defined(residual), weight, bias, std::move(running_mean), std::move(running_var),
                 norm.ghost_batch, norm.momentum, norm.eps, norm.relu);
}

GhostNormGradients ghost_batch_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& y,
                                             const at::Tensor& weight, const at::Tensor& statistics,
                                             const GhostNorm& norm, bool residual, const GhostNormSquares& squares) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::ghost_batch_norm_backward", "")
                             .typed<decltype(backward_cpu)>();
  auto [dx, dresidual, dweight, dbias] =
      op.call(dy, x, if_defined(y), weight, statistics, norm.ghost_batch, norm.relu, residual,
              if_defined(squares.weight), if_defined(squares.bias), squares.examples_per_group);
  return {dx, residual ? dresidual : at::Tensor(), dweight, dbias};
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "ghost_batch_norm(Tensor x, Tensor? residual, Tensor weight, Tensor bias, Tensor(a!) running_mean, "
      "Tensor(b!) running_var, int ghost_batch, float momentum, float eps, bool relu) -> (Tensor, Tensor)");
  m.def(
      "ghost_batch_norm_backward(Tensor dy, Tensor x, Tensor? y, Tensor weight, Tensor statistics, int ghost_batch, "
      "bool relu, bool residual, Tensor(a!)? weight_squares, Tensor(b!)? bias_squares, int examples_per_group)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) {
  m.impl("ghost_batch_norm", forward_cpu);
  m.impl("ghost_batch_norm_backward", backward_cpu);
}

}  // namespace covnoise
