#include "covnoise/ops/weight_gradient.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

// Gradients and moments of a layer's weight and bias in one call, for Python, where each call costs more than a small
// kernel. With S_j the sum of the contributions of group j of m_j consecutive examples (m = `examples_per_group`, the
// last group fewer where the batch is not a multiple):
//
//   gradient = sum_j S_j        moments = [sum_j S_j, sum_j (m / m_j) S_j^2]
//
// in the operands' type, but at least in float32. Operands of a type that the kernels do not take are converted.
// Results are weight's gradient, its moments, and the bias' two; those of a parameter that is not wanted are empty.
namespace covnoise {
namespace {

using GradientsAndMoments = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

at::Tensor operand(const at::Tensor& x) {
  const auto type = x.scalar_type();
  const bool taken = type == at::kFloat || type == at::kDouble || (type == at::kBFloat16 && x.is_cuda());
  return taken ? x : x.to(at::kFloat);
}

at::Tensor part_of(const at::Tensor& rows, std::int64_t first, std::int64_t number) {
  return number == rows.size(0) ? rows : rows.narrow(0, first, number);
}

/// One parameter. gradient(first, number, squares, size) adds the squares of the groups of `size` of these examples to
/// `squares` and returns their sum; it is empty if the parameter is not wanted.
struct ParameterMoments {
  std::vector<std::int64_t> sizes;
  std::function<at::Tensor(std::int64_t, std::int64_t, at::Tensor&, std::int64_t)> gradient;
  at::Tensor squares = {}, total = {};

  void add(std::int64_t first, std::int64_t number, std::int64_t size) {
    if (!gradient) return;
    const auto part = gradient(first, number, squares, size);
    total = total.defined() ? total.add_(part) : part;
  }

  /// Gradient and moments, the latter in one copy; empty tensors of the type of `like` if the parameter is not wanted.
  std::pair<at::Tensor, at::Tensor> results(const at::Tensor& like) const {
    if (!gradient) return {at::empty({0}, like.options()), at::empty({0}, like.options())};
    auto both = sizes;
    both.insert(both.begin(), 2);
    return {total.reshape(sizes), at::cat({total.reshape(-1), squares}).view(both)};
  }
};

/// Squares of both parameters in one buffer of zeros, so that one kernel clears them.
at::Tensor shared_squares(std::array<ParameterMoments, 2>& of, const at::Tensor& dz) {
  constexpr std::int64_t kAligned = 64;  // elements
  std::array<std::int64_t, 3> start{};
  for (std::size_t k = 0; k < 2; ++k)
    start[k + 1] = start[k] + (c10::multiply_integers(of[k].sizes) + kAligned - 1) / kAligned * kAligned;
  auto buffer = at::zeros({start[2]}, dz.options().dtype(c10::promoteTypes(dz.scalar_type(), at::kFloat)));
  for (std::size_t k = 0; k < 2; ++k) of[k].squares = buffer.narrow(0, start[k], c10::multiply_integers(of[k].sizes));
  return buffer;
}

/// The smaller group comes first, so that its squares can be scaled alone.
GradientsAndMoments moments_of(std::array<ParameterMoments, 2> of, const at::Tensor& dz, std::int64_t examples,
                               std::int64_t examples_per_group) {
  TORCH_CHECK(examples > 0 && examples_per_group > 0, "moments of a gradient: ", examples, " examples in groups of ",
              examples_per_group, "; both must be at least 1");
  for (auto& each : of)
    if (!each.gradient) each.sizes = {0};
  const auto squares = shared_squares(of, dz);
  const std::int64_t rest = examples % examples_per_group, whole = examples - rest;
  if (rest > 0) {
    for (auto& each : of) each.add(whole, rest, rest);
    squares.mul_(static_cast<double>(examples_per_group) / static_cast<double>(rest));
  }
  if (whole > 0)
    for (auto& each : of) each.add(0, whole, examples_per_group);
  const auto [weight, weight_moments] = of[0].results(squares);
  const auto [bias, bias_moments] = of[1].results(squares);
  return {weight, weight_moments, bias, bias_moments};
}

/// Of a bias, from dz [M, O] or [M, O, H, W].
ParameterMoments of_bias(const at::Tensor& dz) {
  return {{dz.size(1)}, [dz](std::int64_t first, std::int64_t number, at::Tensor& squares, std::int64_t size) {
            return bias_gradient_squares(part_of(dz, first, number), squares, size, false);
          }};
}

/// A weight [O, C / groups, k] of a convolution of one dimension is one of height 1, as x and dz are.
GradientsAndMoments conv2d_moments(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                   std::int64_t groups, std::int64_t examples_per_group, bool weight, bool bias) {
  const auto d = operand(dz);
  std::array<ParameterMoments, 2> of;
  if (weight) {
    auto kernel = weight_sizes.vec();
    if (kernel.size() == 3) kernel.insert(kernel.begin() + 2, 1);
    of[0] = {weight_sizes.vec(),
             [=, a = operand(x)](std::int64_t first, std::int64_t number, at::Tensor& squares, std::int64_t size) {
               return conv2d_weight_gradient_squares(part_of(a, first, number), part_of(d, first, number), squares,
                                                     kernel, stride, padding, dilation, groups, size, false);
             }};
  }
  if (bias) of[1] = of_bias(d);
  return moments_of(std::move(of), d, d.size(0), examples_per_group);
}

/// [M, ..., K] -> [M T, K].
at::Tensor position_rows(const at::Tensor& x) { return (x.dim() == 2 ? x : x.flatten(0, -2)).contiguous(); }

/// [M T, K] -> [M, K, T, 1] with channels last: a linear layer over positions is a 1x1 convolution.
at::Tensor as_pixels(const at::Tensor& rows, std::int64_t positions) {
  return rows.view({-1, positions, rows.size(1)}).transpose(1, 2).unsqueeze(3);
}

/// Of the rows a [M T, K] and dz [M T, O]: T positions of an example, whose products add up.
ParameterMoments of_linear_weight(const at::Tensor& a, const at::Tensor& dz, std::int64_t positions) {
  const auto gradient = [=](std::int64_t first, std::int64_t number, at::Tensor& squares, std::int64_t size) {
    const auto x = part_of(a, first * positions, number * positions);
    const auto d = part_of(dz, first * positions, number * positions);
    return linear_weight_gradient_squares(x, d, squares, size * positions);
  };
  return {{dz.size(1), a.size(1)}, gradient};
}

/// a [M, ..., K] and dz [M, ..., O].
GradientsAndMoments linear_moments(const at::Tensor& a, const at::Tensor& dz, std::int64_t examples_per_group,
                                   bool weight, bool bias) {
  const auto before = [](const at::Tensor& x) { return x.sizes().slice(0, x.dim() - 1); };
  TORCH_CHECK(a.dim() >= 2 && dz.dim() >= 2 && before(a) == before(dz), "linear_moments: the input ", a.sizes(),
              " and the output's derivative ", dz.sizes(), " must be equal except for the last size");
  const auto d = position_rows(operand(dz));
  const std::int64_t examples = a.size(0), positions = examples > 0 ? d.size(0) / examples : 1;
  std::array<ParameterMoments, 2> of;
  if (weight) of[0] = of_linear_weight(position_rows(operand(a)), d, positions);
  if (bias) of[1] = of_bias(positions == 1 ? d : as_pixels(d, positions));
  return moments_of(std::move(of), d, examples, examples_per_group);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "conv2d_moments(Tensor x, Tensor dz, int[] weight_sizes, int[] stride, int[] padding, int[] dilation, int "
      "groups, "
      "int examples_per_group, bool weight, bool bias) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "linear_moments(Tensor a, Tensor dz, int examples_per_group, bool weight, bool bias) -> (Tensor, Tensor, Tensor, "
      "Tensor)");
}

// On both devices by the operators with squares.
TORCH_LIBRARY_IMPL(covnoise, CPU, m) {
  m.impl("conv2d_moments", conv2d_moments);
  m.impl("linear_moments", linear_moments);
}

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) {
  m.impl("conv2d_moments", conv2d_moments);
  m.impl("linear_moments", linear_moments);
}

}  // namespace covnoise
