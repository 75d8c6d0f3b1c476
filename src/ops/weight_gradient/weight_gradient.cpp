#include "covnoise/ops/weight_gradient.h"

#include "covnoise/ops/internal/group_squares.h"
#include "ops/weight_gradient/weight_gradient_cpu.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace covnoise {
namespace {

using weight_gradient::Convolution;
using weight_gradient::gradient;
using weight_gradient::gradient_squares;

struct Pair {
  std::int64_t height, width;
};

Pair pair_of(at::IntArrayRef values, const char* name, std::int64_t least) {
  TORCH_CHECK(values.size() == 1 || values.size() == 2, "weight gradient: ", name, " ", values,
              " must be one number or [height, width]");
  const Pair pair{values.front(), values.back()};
  TORCH_CHECK(pair.height >= least && pair.width >= least, "weight gradient: ", name, " ", values, " must be at least ",
              least);
  return pair;
}

void check_operands(const at::Tensor& x, const at::Tensor& dz, std::int64_t dimensions,
                    std::int64_t examples_per_group) {
  TORCH_CHECK(x.dim() == dimensions && dz.dim() == dimensions, "weight gradient: the input has sizes ", x.sizes(),
              " and the output's derivative ", dz.sizes(), "; both must have ", dimensions, " dimensions");
  TORCH_CHECK(x.scalar_type() == dz.scalar_type() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble),
              "weight gradient: the input is ", x.scalar_type(), " and the output's derivative ", dz.scalar_type(),
              "; both must be float or both double");
  TORCH_CHECK(x.size(0) == dz.size(0), "weight gradient: ", x.size(0), " examples in the input but ", dz.size(0),
              " in the output's derivative");
  TORCH_CHECK(x.size(0) > 0, "weight gradient: the batch is empty");
  TORCH_CHECK(examples_per_group > 0 && x.size(0) % examples_per_group == 0, "weight gradient: ", x.size(0),
              " examples are not a whole number of groups of ", examples_per_group);
}

std::int64_t output_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         std::int64_t dilation) {
  const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Convolution convolution_of(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes, Pair stride,
                           Pair padding, Pair dilation, std::int64_t groups) {
  TORCH_CHECK(weight_sizes.size() == 4, "weight gradient: the weight's sizes ", weight_sizes,
              " must be [outputs, channels / groups, height, width]");
  TORCH_CHECK(groups > 0 && weight_sizes[0] % groups == 0, "weight gradient: ", weight_sizes[0],
              " outputs are not a whole number of ", groups, " groups");
  const Convolution c{
      x.size(0),      weight_sizes[1], weight_sizes[0] / groups, groups,          x.size(2),     x.size(3),
      dz.size(2),     dz.size(3),      weight_sizes[2],          weight_sizes[3], stride.height, stride.width,
      padding.height, padding.width,   dilation.height,          dilation.width};
  TORCH_CHECK(x.size(1) == groups * c.channels, "weight gradient: the input has ", x.size(1), " channels, the weight ",
              weight_sizes, " with ", groups, " groups wants ", groups * c.channels);
  const std::int64_t height = output_size(c.height, c.kernel_height, stride.height, padding.height, dilation.height);
  const std::int64_t width = output_size(c.width, c.kernel_width, stride.width, padding.width, dilation.width);
  TORCH_CHECK(dz.size(1) == weight_sizes[0] && c.out_height == height && c.out_width == width,
              "weight gradient: the output's derivative has sizes ", dz.sizes(), ", expected [", x.size(0), ", ",
              weight_sizes[0], ", ", height, ", ", width, "]");
  TORCH_CHECK(x.numel() > 0 && dz.numel() > 0 && c.kernel() > 0, "weight gradient: nothing to do for the input ",
              x.sizes(), " and the weight ", weight_sizes);
  return c;
}

void check_squares(const at::Tensor& squares, const at::Tensor& x, std::int64_t elements) {
  TORCH_CHECK(squares.is_contiguous() && squares.numel() == elements && squares.scalar_type() == x.scalar_type(),
              "weight gradient: the squares, ", squares.scalar_type(), " ", squares.sizes(),
              ", must be contiguous, of the operands' type and of the weight's ", elements, " elements");
}

at::Tensor conv2d_cpu(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares, at::IntArrayRef weight_sizes,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, std::int64_t groups,
                      std::int64_t examples_per_group, bool spatial) {
  check_operands(x, dz, 4, examples_per_group);
  const Convolution convolution =
      convolution_of(x, dz, weight_sizes, pair_of(stride, "stride", 1), pair_of(padding, "padding", 0),
                     pair_of(dilation, "dilation", 1), groups);
  check_squares(squares, x, c10::multiply_integers(weight_sizes));
  const auto best = weight_gradient::available_instruction_sets().back();
  const at::Tensor input = x.contiguous(), derivative = dz.contiguous();
  const std::int64_t group = spatial ? weight_gradient::kEachPosition : examples_per_group;
  return gradient_squares(convolution, input, derivative, squares, group, best).view(weight_sizes);
}

/// A linear layer is a convolution of images of one pixel.
at::Tensor linear_cpu(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares, std::int64_t examples_per_group) {
  check_operands(a, dz, 2, examples_per_group);
  TORCH_CHECK(a.numel() > 0 && dz.numel() > 0, "weight gradient: nothing to do for the input ", a.sizes(),
              " and the output's derivative ", dz.sizes());
  const Convolution convolution{a.size(0), a.size(1), dz.size(1), 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1};
  check_squares(squares, a, a.size(1) * dz.size(1));
  const std::int64_t group = examples_per_group == 1 ? weight_gradient::kEachPosition : examples_per_group;
  return gradient_squares(convolution, a.contiguous(), dz.contiguous(), squares, group,
                          weight_gradient::available_instruction_sets().back())
      .squeeze(2);
}

at::Tensor bias_cpu(const at::Tensor& dz, at::Tensor& squares, std::int64_t examples_per_group, bool spatial) {
  TORCH_CHECK(dz.dim() == 2 || dz.dim() == 4, "bias gradient: the output's derivative has sizes ", dz.sizes());
  TORCH_CHECK(examples_per_group > 0 && dz.size(0) % examples_per_group == 0, "bias gradient: ", dz.size(0),
              " examples are not a whole number of groups of ", examples_per_group);
  const auto by_example = dz.dim() == 2 ? dz : dz.sum({2, 3});
  if (!spatial) {
    squares.add_(group_squares(by_example, examples_per_group));
  } else {
    squares.add_(dz.dim() == 2 ? dz.pow(2).sum(0) : dz.pow(2).sum({0, 2, 3}));
  }
  return by_example.sum(0);
}

at::Tensor linear_gradient_cpu(const at::Tensor& a, const at::Tensor& dz) {
  const auto type = c10::promoteTypes(a.scalar_type(), at::kFloat);
  return dz.to(type).t().mm(a.to(type));
}

}  // namespace

bool weight_gradient::faster_than_library(const at::Tensor& x, at::IntArrayRef weight_sizes, std::int64_t groups) {
  constexpr std::int64_t kOutputs = 16;   // of a group: the kernel's vectors
  constexpr std::int64_t kChannels = 8;   // of a group: a tile; fewer are packed with their padding, which must pay
  constexpr std::int64_t kExamples = 64;  // off over this many examples
  const auto type = x.scalar_type();
  return (type == at::kFloat || type == at::kDouble) && x.is_contiguous() && x.numel() > 0 &&
         available_instruction_sets().back() != InstructionSet::kPortable && weight_sizes[0] >= kOutputs * groups &&
         (weight_sizes[1] >= kChannels || x.size(0) >= kExamples);
}

at::Tensor weight_gradient::conv2d_gradient(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                                            at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                            std::int64_t groups) {
  check_operands(x, dz, 4, 1);
  const Convolution convolution =
      convolution_of(x, dz, weight_sizes, pair_of(stride, "stride", 1), pair_of(padding, "padding", 0),
                     pair_of(dilation, "dilation", 1), groups);
  return gradient(convolution, x.contiguous(), dz.contiguous(), available_instruction_sets().back()).view(weight_sizes);
}

at::Tensor conv2d_weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares,
                                          at::IntArrayRef weight_sizes, at::IntArrayRef stride, at::IntArrayRef padding,
                                          at::IntArrayRef dilation, std::int64_t groups,
                                          std::int64_t examples_per_group, bool spatial) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::conv2d_weight_gradient_squares", "")
                             .typed<decltype(conv2d_cpu)>();
  return op.call(x, dz, squares, weight_sizes, stride, padding, dilation, groups, examples_per_group, spatial);
}

at::Tensor linear_weight_gradient_squares(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares,
                                          std::int64_t examples_per_group) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::linear_weight_gradient_squares", "")
                             .typed<decltype(linear_cpu)>();
  return op.call(a, dz, squares, examples_per_group);
}

at::Tensor bias_gradient_squares(const at::Tensor& dz, at::Tensor& squares, std::int64_t examples_per_group,
                                 bool spatial) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::bias_gradient_squares", "").typed<decltype(bias_cpu)>();
  return op.call(dz, squares, examples_per_group, spatial);
}

at::Tensor linear_weight_gradient(const at::Tensor& a, const at::Tensor& dz) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::linear_weight_gradient", "")
                             .typed<decltype(linear_gradient_cpu)>();
  return op.call(a, dz);
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "conv2d_weight_gradient_squares(Tensor x, Tensor dz, Tensor(a!) squares, int[] weight_sizes, int[] stride, "
      "int[] padding, int[] dilation, int groups, int examples_per_group, bool spatial) -> Tensor");
  m.def("linear_weight_gradient_squares(Tensor a, Tensor dz, Tensor(a!) squares, int examples_per_group) -> Tensor");
  m.def("bias_gradient_squares(Tensor dz, Tensor(a!) squares, int examples_per_group, bool spatial) -> Tensor");
  m.def("linear_weight_gradient(Tensor a, Tensor dz) -> Tensor");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) {
  m.impl("conv2d_weight_gradient_squares", conv2d_cpu);
  m.impl("linear_weight_gradient_squares", linear_cpu);
  m.impl("bias_gradient_squares", bias_cpu);
  m.impl("linear_weight_gradient", linear_gradient_cpu);
}

}  // namespace covnoise
