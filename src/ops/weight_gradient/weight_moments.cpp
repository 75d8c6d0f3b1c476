#include "covnoise/ops/weight_gradient.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

// Gradient and moments of a parameter in one call, for Python, where each call costs more than a small kernel. With S_j
// the sum of the contributions of group j of m_j consecutive examples (`examples_per_group`, the last group fewer where
// the batch is not a multiple):
//
//   gradient = sum_j S_j        moments = [sum_j S_j, sum_j S_j^2 / m_j]
//
// in the operands' type, but at least in float32. Operands of a type that the kernels do not take are converted.
namespace covnoise {
namespace {

using GradientAndMoments = std::tuple<at::Tensor, at::Tensor>;

at::Tensor operand(const at::Tensor& x) {
  const auto type = x.scalar_type();
  const bool taken = type == at::kFloat || type == at::kDouble || (type == at::kBFloat16 && x.is_cuda());
  return taken ? x : x.to(at::kFloat);
}

at::Tensor part_of(const at::Tensor& rows, std::int64_t first, std::int64_t number) {
  return number == rows.size(0) ? rows : rows.narrow(0, first, number);
}

/// gradient(first, number, squares, size) adds the squares of the groups of `size` of these examples to `squares` and
/// returns their sum. The squares of the smaller group come first, so that one division serves all.
template <class Gradient>
GradientAndMoments moments_by(const Gradient& gradient, const at::TensorOptions& options, at::IntArrayRef sizes,
                              std::int64_t examples, std::int64_t examples_per_group) {
  TORCH_CHECK(examples > 0 && examples_per_group > 0, "moments of a gradient: ", examples, " examples in groups of ",
              examples_per_group, "; both must be at least 1");
  std::vector<std::int64_t> two_of = {2};
  two_of.insert(two_of.end(), sizes.begin(), sizes.end());
  auto moments = at::empty(two_of, options.dtype(options.dtype() == at::kDouble ? at::kDouble : at::kFloat));
  auto squares = moments.select(0, 1).zero_();
  const std::int64_t rest = examples % examples_per_group, whole = examples - rest;
  at::Tensor total;
  if (rest > 0) {
    total = gradient(whole, rest, squares, rest);
    squares.mul_(static_cast<double>(examples_per_group) / static_cast<double>(rest));
  }
  if (whole > 0) {
    const auto part = gradient(0, whole, squares, examples_per_group);
    total = total.defined() ? total.add_(part) : part;
  }
  if (examples_per_group > 1) squares.div_(examples_per_group);
  if (total.dim() != moments.dim() - 1) total = total.reshape(sizes);
  moments.select(0, 0).copy_(total);
  return {total, moments};
}

/// A weight [O, C / groups, k] of a convolution of one dimension is one of height 1, as x and dz are.
GradientAndMoments conv2d_moments(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                                  at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                  std::int64_t groups, std::int64_t examples_per_group) {
  const auto a = operand(x), d = operand(dz);
  auto kernel = weight_sizes.vec();
  if (kernel.size() == 3) kernel.insert(kernel.begin() + 2, 1);
  const auto gradient = [&](std::int64_t first, std::int64_t number, at::Tensor& squares, std::int64_t size) {
    return conv2d_weight_gradient_squares(part_of(a, first, number), part_of(d, first, number), squares, kernel, stride,
                                          padding, dilation, groups, size, false);
  };
  return moments_by(gradient, d.options(), weight_sizes, d.size(0), examples_per_group);
}

/// [M, ..., K] -> [M T, K].
at::Tensor position_rows(const at::Tensor& x) { return (x.dim() == 2 ? x : x.flatten(0, -2)).contiguous(); }

/// [M T, K] -> [M, K, T, 1] with channels last: a linear layer over positions is a 1x1 convolution.
at::Tensor as_pixels(const at::Tensor& rows, std::int64_t positions) {
  return rows.view({-1, positions, rows.size(1)}).transpose(1, 2).unsqueeze(3);
}

/// a [M, ..., K] and dz [M, ..., O]: T positions of an example, whose products add up.
GradientAndMoments linear_moments(const at::Tensor& a, const at::Tensor& dz, std::int64_t examples_per_group) {
  TORCH_CHECK(
      a.dim() >= 2 && a.dim() == dz.dim() && a.sizes().slice(0, a.dim() - 1) == dz.sizes().slice(0, a.dim() - 1),
      "linear_weight_moments: the input ", a.sizes(), " and the output's derivative ", dz.sizes(),
      " must be equal but for the last size");
  const auto x = position_rows(operand(a)), d = position_rows(operand(dz));
  const std::int64_t positions = a.size(0) > 0 ? x.size(0) / a.size(0) : 1;
  const auto gradient = [&](std::int64_t first, std::int64_t number, at::Tensor& squares, std::int64_t size) {
    const auto x_part = part_of(x, first * positions, number * positions);
    const auto d_part = part_of(d, first * positions, number * positions);
    if (size == 1 && positions > 1 && x.is_cuda())  // squares in registers instead of gradients in memory
      return conv2d_weight_gradient_squares(as_pixels(x_part, positions), as_pixels(d_part, positions), squares,
                                            {d.size(1), x.size(1), 1, 1}, 1, 0, 1, 1, 1, false);
    return linear_weight_gradient_squares(x_part, d_part, squares, size * positions);
  };
  return moments_by(gradient, d.options(), {d.size(1), x.size(1)}, dz.size(0), examples_per_group);
}

/// dz [M, O], [M, O, H, W] or, with the outputs last, [M, ..., O].
GradientAndMoments bias_moments(const at::Tensor& dz, std::int64_t examples_per_group, bool outputs_last) {
  const auto given = operand(dz);
  const auto d = outputs_last && dz.dim() > 2 ? given.flatten(1, -2).transpose(1, 2).unsqueeze(3) : given;
  const auto gradient = [&](std::int64_t first, std::int64_t number, at::Tensor& squares, std::int64_t size) {
    return bias_gradient_squares(part_of(d, first, number), squares, size, false);
  };
  return moments_by(gradient, d.options(), {d.size(1)}, d.size(0), examples_per_group);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "conv2d_weight_moments(Tensor x, Tensor dz, int[] weight_sizes, int[] stride, int[] padding, int[] dilation, "
      "int groups, int examples_per_group) -> (Tensor, Tensor)");
  m.def("linear_weight_moments(Tensor a, Tensor dz, int examples_per_group) -> (Tensor, Tensor)");
  m.def("bias_moments(Tensor dz, int examples_per_group, bool outputs_last) -> (Tensor, Tensor)");
}

// On both devices by the operators with squares.
TORCH_LIBRARY_IMPL(covnoise, CPU, m) {
  m.impl("conv2d_weight_moments", conv2d_moments);
  m.impl("linear_weight_moments", linear_moments);
  m.impl("bias_moments", bias_moments);
}

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) {
  m.impl("conv2d_weight_moments", conv2d_moments);
  m.impl("linear_weight_moments", linear_moments);
  m.impl("bias_moments", bias_moments);
}

}  // namespace covnoise
