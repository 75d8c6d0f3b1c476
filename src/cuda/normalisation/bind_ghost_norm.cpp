#include "cuda/bind.h"
#include "cuda/kernel_choice.h"
#include "cuda/normalisation/ghost_norm.h"
#include "ops/normalisation/norm_statistics.h"
#include "ops/portable/portable.h"

#include <torch/library.h>

namespace covnoise::cuda {
namespace {

void check(const at::Tensor& x, std::int64_t ghost_batch) {
  TORCH_CHECK(x.dim() == 4, "ghost batch normalisation takes images [M, C, H, W], not ", x.sizes());
  TORCH_CHECK(ghost_batch > 0 && x.size(0) > 0 && x.size(0) % ghost_batch == 0, "a batch of ", x.size(0),
              " examples is not a whole number of ghost batches of ", ghost_batch);
  TORCH_CHECK(ghost_batch * x.size(2) * x.size(3) > 1, "a ghost batch of one value per channel has no variance");
}

GhostShape shape_of(const at::Tensor& x, std::int64_t ghost_batch) {
  GhostShape shape;
  shape.examples = static_cast<int>(x.size(0)), shape.positions = static_cast<int>(x.size(2) * x.size(3));
  shape.channels = static_cast<int>(x.size(1)), shape.ghost_batch = static_cast<int>(ghost_batch);
  shape.scalar = scalar_of(x);
  return shape;
}

GhostStatistics arrays_of(const at::Tensor& statistics) {
  float* first = statistics.data_ptr<float>();
  const std::int64_t size = statistics.numel() / kNormStatistics;
  return {first, first + size, first + 2 * size, first + 3 * size, first + 4 * size};
}

std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x_any, const OptionalTensor& residual_any,
                                           const at::Tensor& weight, const at::Tensor& bias, at::Tensor running_mean,
                                           at::Tensor running_var, std::int64_t ghost_batch, double momentum,
                                           double eps, bool relu) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  check(x_any, ghost_batch);
  const auto x = channels_last(x_any);
  const auto residual = residual_any.has_value() ? channels_last(residual_any->to(x.scalar_type())) : at::Tensor();
  if (!has_general_kernels(x))
    return portable::ghost_norm(
        {x, residual, weight, bias, running_mean, running_var, ghost_batch, momentum, eps, relu});
  const GhostShape shape = shape_of(x, ghost_batch);
  const auto stream = current_stream();
  const std::int64_t channels = shape.channels, parts = ghost_norm_parts(shape), pieces = shape.ghosts() * parts;
  const auto floats = x.options().dtype(at::kFloat).memory_format(at::MemoryFormat::Contiguous);
  const auto partial = at::empty({(2 * channels + 1) * pieces}, floats);
  float* first = partial.data_ptr<float>();
  const GhostPartials partials{first, first + channels * pieces, first + 2 * channels * pieces,
                               static_cast<int>(parts)};
  ghost_norm_partials(shape, x.data_ptr(), partials, stream);
  auto statistics = at::empty({kNormStatistics, shape.ghosts(), channels}, floats);
  const GhostStatistics arrays = arrays_of(statistics);
  ghost_norm_finish(shape, partials, parameter(weight, channels), parameter(bias, channels), static_cast<float>(eps),
                    arrays, stream);
  ghost_norm_running(shape, arrays, static_cast<float>(momentum), added_to(running_mean, channels),
                     added_to(running_var, channels), stream);
  auto y = empty_channels_last(x.sizes(), x);
  ghost_norm_apply(shape, x.data_ptr(), residual.defined() ? residual.data_ptr() : nullptr, relu, arrays, y.data_ptr(),
                   stream);
  return {y, statistics};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& dy_any, const at::Tensor& x_any, const OptionalTensor& y, const at::Tensor& weight,
    const at::Tensor& statistics, std::int64_t ghost_batch, bool relu, bool residual,
    const OptionalTensor& weight_squares, const OptionalTensor& bias_squares, std::int64_t examples_per_group) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const auto x = channels_last(x_any), dy = channels_last(dy_any);
  check(x, ghost_batch);
  TORCH_CHECK(!relu || y.has_value(), "the backward of ghost batch normalisation with a ReLU needs its output");
  const auto output = y.has_value() ? channels_last(*y) : at::Tensor();
  if (!has_general_kernels(x))
    return portable::ghost_norm_backward({dy, x, output, weight, statistics, ghost_batch, relu, residual,
                                          or_undefined(weight_squares), or_undefined(bias_squares),
                                          examples_per_group});
  GhostNormBackward call;
  call.shape = shape_of(x, ghost_batch);
  const std::int64_t channels = call.shape.channels;
  call.x = x.data_ptr(), call.dy = dy.data_ptr(), call.y = output.defined() ? output.data_ptr() : nullptr;
  call.weight = parameter(weight, channels);
  call.statistics = arrays_of(statistics);
  call.relu = relu, call.residual = residual;
  auto dx = empty_channels_last(x.sizes(), x);
  auto dresidual = residual ? empty_channels_last(x.sizes(), x) : nothing_like(x);
  call.dx = dx.data_ptr(), call.dresidual = residual ? dresidual.data_ptr() : nullptr;
  auto dweight = at::empty({channels}, weight.options()), dbias = at::empty({channels}, weight.options());
  call.dweight = dweight.data_ptr<float>(), call.dbias = dbias.data_ptr<float>();
  call.dweight_squares = added_to(weight_squares, channels), call.dbias_squares = added_to(bias_squares, channels);
  TORCH_CHECK(!call.dweight_squares || examples_per_group == 1 || examples_per_group == ghost_batch,
              "on a GPU the squares of a normalisation are by example or by its ghost batch of ", ghost_batch,
              ", not by ", examples_per_group, " examples: set train.ghost_batch and noise.group alike");
  call.squares_per_example = examples_per_group == 1;
  const auto space = workspace(ghost_norm_backward_workspace(call), x);
  call.workspace = reinterpret_cast<float*>(space.data_ptr());
  ghost_norm_backward(call, current_stream());
  return {dx, dresidual, dweight, dbias};
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) {
  m.impl("ghost_batch_norm", forward);
  m.impl("ghost_batch_norm_backward", backward);
}

}  // namespace covnoise::cuda
