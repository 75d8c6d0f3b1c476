#include "cuda/bind.h"
#include "cuda/convolution/narrow_conv.h"
#include "cuda/hopper/wide_weight_gradient.h"
#include "cuda/kernel_choice.h"
#include "cuda/weight_gradient/conv_weight_gradient.h"
#include "cuda/weight_gradient/partial_sums.h"
#include "ops/portable/portable.h"

#include <ATen/Context.h>
#include <torch/library.h>
#include <torch/version.h>

namespace covnoise::cuda {
namespace {

using portable::Geometry;

/// Whether float32 convolutions and matrix products may round their factors to tf32. Once a user has set
/// fp32_precision, PyTorch answers for a named operation only.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
bool convolutions_round() { return at::globalContext().allowTF32CuDNN(at::Float32Op::CONV); }
bool products_round() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}
#else
bool convolutions_round() { return at::globalContext().allowTF32CuDNN(); }
bool products_round() { return at::globalContext().allowTF32CuBLAS(); }
#endif

bool all_are(at::IntArrayRef values, std::int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == value; });
}

Convolution shape_of(const at::Tensor& x, at::IntArrayRef weight, const Geometry& g) {
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  Convolution c;
  c.examples = number(x.size(0)), c.channels = number(x.size(1));
  c.height = number(x.size(2)), c.width = number(x.size(3));
  c.outputs = number(weight[0]), c.kernel_height = number(weight[2]), c.kernel_width = number(weight[3]);
  c.stride_height = number(g.stride.front()), c.stride_width = number(g.stride.back());
  c.padding_height = number(g.padding.front()), c.padding_width = number(g.padding.back());
  c.dilation_height = number(g.dilation.front()), c.dilation_width = number(g.dilation.back());
  c.groups = number(g.groups);
  return c;
}

/// From 64 channels on cuDNN's tensor-core kernels are faster than ours (docs/performance.md).
bool narrower_than_library(int channels, int outputs, bool input_gradient) {
  return input_gradient ? channels < 64 : outputs < 64;
}

/// The call of the narrow kernel where it is faster than cuDNN; otherwise `supported` is false.
struct Narrow {
  NarrowConvolution call;
  bool supported = false;
};

Narrow narrow_of(const at::Tensor& x, const at::Tensor& weight, const Geometry& g, bool input_gradient) {
  Narrow narrow;
  if (!has_hopper_kernels(x)) return narrow;
  const bool rounded = x.scalar_type() == at::kFloat && convolutions_round();
  const bool shape = (rounded || x.scalar_type() == at::kBFloat16) && weight.size(2) == 3 && weight.size(3) == 3 &&
                     g.groups == 1 && all_are(g.padding, 1) && all_are(g.dilation, 1) &&
                     g.stride.front() == g.stride.back();
  if (!shape || weight.scalar_type() != at::kFloat || !weight.is_contiguous()) return narrow;
  auto& call = narrow.call;
  call.scalar = scalar_of(x);
  call.examples = static_cast<int>(x.size(0)), call.channels = static_cast<int>(x.size(1));
  call.height = static_cast<int>(x.size(2)), call.width = static_cast<int>(x.size(3));
  call.outputs = static_cast<int>(weight.size(0)), call.stride = static_cast<int>(g.stride.front());
  call.input_gradient = input_gradient;
  narrow.supported = narrower_than_library(call.channels, call.outputs, input_gradient) && narrow_conv_supports(call);
  return narrow;
}

void run(NarrowConvolution& call, const at::Tensor& input, const at::Tensor& weight, at::Tensor& output) {
  const auto packed = workspace(packed_weight_bytes(call), weight);
  pack_weights(call, weight.data_ptr<float>(), packed.data_ptr(), current_stream());
  call.input = input.data_ptr();
  call.weights = packed.data_ptr();
  call.output = output.data_ptr();
  narrow_conv(call, current_stream());
}

/// The weight in the type and layout that cuDNN needs with x.
at::Tensor library_weight(const at::Tensor& weight, const at::Tensor& x) {
  return weight.to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor convolution(const at::Tensor& x_any, const at::Tensor& weight, const OptionalTensor& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, std::int64_t groups) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const auto x = channels_last(x_any);
  const Geometry geometry{stride, padding, dilation, groups};
  if (!bias.has_value()) {
    if (auto narrow = narrow_of(x, weight, geometry, false); narrow.supported) {
      auto y = empty_channels_last({x.size(0), weight.size(0), narrow.call.out_height(), narrow.call.out_width()}, x);
      run(narrow.call, x, weight, y);
      return y;
    }
  }
  const auto shift = bias.has_value() ? OptionalTensor(bias->to(x.scalar_type())) : bias;
  return channels_last(at::conv2d(x, library_weight(weight, x), shift, stride, padding, dilation, groups));
}

at::Tensor input_gradient(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& weight, const Geometry& g) {
  if (auto narrow = narrow_of(x, weight, g, true); narrow.supported) {
    auto dx = empty_channels_last(x.sizes(), x);
    run(narrow.call, dz, weight, dx);
    return dx;
  }
  return channels_last(
      std::get<0>(at::convolution_backward(dz, x, library_weight(weight, x), at::OptionalIntArrayRef{}, g.stride,
                                           g.padding, g.dilation, false, {0, 0}, g.groups, {true, false, false})));
}

WeightGradient weight_gradient_call(const at::Tensor& x, const at::Tensor& dz, const Convolution& shape, bool round,
                                    GradientSquares squares_of, std::int64_t examples_per_group) {
  WeightGradient call;
  call.shape = shape;
  call.scalar = scalar_of(x);
  call.precise = !round;
  call.squares_of = squares_of;
  call.examples_per_group = static_cast<int>(examples_per_group);
  call.x = x.data_ptr(), call.dz = dz.data_ptr();
  return call;
}

/// Gradient of these sizes in float32; adds to `squares` if it is defined.
at::Tensor weight_gradient_by_kernel(WeightGradient call, const at::Tensor& x, at::IntArrayRef weight_sizes,
                                     float* squares) {
  auto gradient = at::empty(weight_sizes, x.options().dtype(at::kFloat).memory_format(at::MemoryFormat::Contiguous));
  call.gradient = gradient.data_ptr<float>(), call.squares = squares;
  const auto space = workspace(weight_gradient_workspace(call), x);
  call.workspace = space.data_ptr();
  weight_gradient(call, current_stream());
  return gradient;
}

/// 5x5 are LeNet's layers, whose step with squares by this kernel is faster than cuDNN's without (docs/performance.md).
bool ours_is_faster(const at::Tensor& x, const at::Tensor& weight) {
  const bool kernel = (weight.size(2) == 3 && weight.size(0) <= 64) || (weight.size(2) == 5 && weight.size(0) < 64);
  return has_hopper_kernels(x) && x.scalar_type() == at::kBFloat16 && kernel && x.size(1) < 64;
}

/// Only sizes, type and layout of the weight matter.
at::Tensor library_weight_gradient(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& weight,
                                   const Geometry& g) {
  const auto result = at::convolution_backward(dz, x, weight, at::OptionalIntArrayRef{}, g.stride, g.padding,
                                               g.dilation, false, {0, 0}, g.groups, {false, true, false});
  return std::get<1>(result).contiguous();
}

at::Tensor weight_gradient_of(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& weight, const Geometry& g) {
  if (ours_is_faster(x, weight))
    return weight_gradient_by_kernel(
        weight_gradient_call(x, dz, shape_of(x, weight.sizes(), g), convolutions_round(), GradientSquares::kNone, 1), x,
        weight.sizes(), nullptr);
  return library_weight_gradient(dz, x, library_weight(weight, x), g).to(weight.scalar_type());
}

std::tuple<at::Tensor, at::Tensor> gradients(const at::Tensor& dz_any, const at::Tensor& x_any,
                                             const at::Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
                                             at::IntArrayRef dilation, std::int64_t groups, bool input, bool kernel) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const auto dz = channels_last(dz_any), x = channels_last(x_any);
  const Geometry geometry{stride, padding, dilation, groups};
  return {input ? input_gradient(dz, x, weight, geometry) : nothing_like(x),
          kernel ? weight_gradient_of(dz, x, weight, geometry) : nothing_like(weight)};
}

/// In float32, of operands in any precision.
at::Tensor linear_gradient(const at::Tensor& a, const at::Tensor& dz) {
  if (a.scalar_type() != at::kBFloat16) return dz.t().mm(a);
  return at::mm(dz.t(), a, at::kFloat);
}

constexpr std::int64_t kGroupBytes = 16 << 20;  // of gradients per group at once
constexpr int kWideChannels = 64;               // from which on layers are wide
constexpr int kVeryWideChannels = 256;          // and very wide

/// Gradients of each group by cuBLAS, some groups at a time, then their squares.
at::Tensor linear_group_squares(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares, std::int64_t group) {
  const std::int64_t inputs = a.size(1), outputs = dz.size(1), groups = a.size(0) / group;
  auto gradient = at::empty({outputs, inputs}, squares.options());
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kGroupBytes / (outputs * inputs * squares.element_size()), 1, groups);
  const auto left = dz.view({groups, group, outputs}).transpose(1, 2), right = a.view({groups, group, inputs});
  for (std::int64_t first = 0; first < groups; first += at_once) {
    const std::int64_t n = std::min(at_once, groups - first);
    const auto d = left.narrow(0, first, n), x = right.narrow(0, first, n);
    const auto each = a.scalar_type() == at::kBFloat16 ? at::bmm(d, x, at::kFloat) : at::bmm(d, x);
    add_partial_sums(
        {each.data_ptr<float>(), static_cast<int>(n), 1, 1, 1, static_cast<int>(outputs), static_cast<int>(inputs),
         gradient.data_ptr<float>(), first > 0, added_to(squares, outputs * inputs)},
        current_stream());
  }
  return gradient;
}

/// Whether the squares are taken from operands rounded to bfloat16, and the gradient from the library: where float32
/// products may be rounded anyway, and the layer is wide, for groups of examples very wide. The kernel of warpgroup
/// products, which takes bfloat16 only, with two conversions and the library's gradient takes less time there than our
/// tf32 kernel (docs/performance.md).
bool rounds_squares(const WeightGradient& call) {
  const Convolution& c = call.shape;
  return call.scalar == Scalar::kFloat32 && !call.precise && call.squares_of == GradientSquares::kGroups &&
         std::min(c.channels, c.outputs) >= (call.examples_per_group == 1 ? kWideChannels : kVeryWideChannels) &&
         c.groups == 1;
}

/// Adds the squares of the contributions of x and dz, rounded to bfloat16, in the layout that they have.
void add_rounded_squares(WeightGradient call, const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                         float* squares) {
  const auto low_x = x.to(at::kBFloat16), low_dz = dz.to(at::kBFloat16);
  call.scalar = Scalar::kBFloat16;
  call.x = low_x.data_ptr(), call.dz = low_dz.data_ptr();
  weight_gradient_by_kernel(call, low_x, weight_sizes, squares);
}

/// The rows of each group as an image of that height, whose contribution is squared in registers.
WeightGradient image_call(const at::Tensor& a, const at::Tensor& dz, std::int64_t rows) {
  Convolution shape =
      linear_shape(static_cast<int>(a.size(0) / rows), static_cast<int>(a.size(1)), static_cast<int>(dz.size(1)));
  shape.height = static_cast<int>(rows);
  return weight_gradient_call(a, dz, shape, products_round(), GradientSquares::kGroups, 1);
}

/// Whether a group has so few rows that its gradient in memory would cost more than its products by that kernel.
bool squares_in_registers(const WeightGradient& call) {
  constexpr int kFewRows = 127, kFewRoundedRows = 1024;
  return call.shape.height <= (rounds_squares(call) ? kFewRoundedRows : kFewRows);
}

at::Tensor linear_squares_of_images(const WeightGradient& call, const at::Tensor& a, const at::Tensor& dz,
                                    at::Tensor& squares) {
  const std::int64_t inputs = a.size(1), outputs = dz.size(1);
  const auto target = added_to(squares, outputs * inputs);
  if (!rounds_squares(call)) return weight_gradient_by_kernel(call, a, {outputs, inputs}, target);
  add_rounded_squares(call, a, dz, {outputs, inputs}, target);
  return linear_gradient(a, dz);
}

/// Per row: products of all rows and of their squares. Per group: the kernel for wide layers or that for images, which
/// square in registers, if they support the layer; otherwise cuBLAS.
at::Tensor linear_squares(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares,
                          std::int64_t examples_per_group) {
  const c10::cuda::CUDAGuard guard(a.device());
  const std::int64_t examples = a.size(0), inputs = a.size(1), outputs = dz.size(1);
  TORCH_CHECK(examples_per_group > 0 && examples % examples_per_group == 0, "weight gradient: ", examples,
              " examples are not a whole number of groups of ", examples_per_group);
  if (examples_per_group == 1) {
    squares.view({outputs, inputs}).add_(linear_gradient(a.square(), dz.square()));
    return linear_gradient(a, dz);
  }
  if (!has_general_kernels(a)) return portable::linear_group_squares(a, dz, squares, examples_per_group);
  if (has_hopper_kernels(a) && a.is_contiguous() && dz.is_contiguous()) {
    const auto call = weight_gradient_call(
        a, dz, linear_shape(static_cast<int>(examples), static_cast<int>(inputs), static_cast<int>(outputs)),
        products_round(), GradientSquares::kGroups, examples_per_group);
    if (WideWeightGradient::takes(call))
      return weight_gradient_by_kernel(call, a, {outputs, inputs}, added_to(squares, outputs * inputs));
    if (const auto images = image_call(a, dz, examples_per_group); squares_in_registers(images))
      return linear_squares_of_images(images, a, dz, squares);
  }
  return linear_group_squares(a, dz, squares, examples_per_group);
}

/// Whether every pixel is in one patch, as in the first layer of a vision transformer: a linear layer over patches.
bool has_disjoint_patches(at::IntArrayRef weight, const Geometry& g) {
  return weight[2] * weight[3] > 1 && g.stride.front() == weight[2] && g.stride.back() == weight[3] &&
         all_are(g.padding, 0) && all_are(g.dilation, 1) && g.groups == 1;
}

/// [M, C, H, W] -> [M T, C kh kw], T disjoint patches, in one copy.
at::Tensor patch_rows(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight) {
  const std::int64_t rows = dz.size(2), columns = dz.size(3);
  return x.narrow(2, 0, rows * weight[2])
      .narrow(3, 0, columns * weight[3])
      .reshape({x.size(0), x.size(1), rows, weight[2], columns, weight[3]})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({x.size(0) * rows * columns, x.size(1) * weight[2] * weight[3]});
}

at::Tensor convolution_squares(const at::Tensor& x_any, const at::Tensor& dz_any, at::Tensor& squares,
                               at::IntArrayRef weight_sizes, at::IntArrayRef stride, at::IntArrayRef padding,
                               at::IntArrayRef dilation, std::int64_t groups, std::int64_t examples_per_group,
                               bool spatial) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const auto x = channels_last(x_any), dz = channels_last(dz_any);
  const Geometry geometry{stride, padding, dilation, groups};
  if (!has_hopper_kernels(x))
    return portable::weight_gradient_squares(x, dz, squares, weight_sizes, geometry, examples_per_group, spatial);
  if (!spatial && has_disjoint_patches(weight_sizes, geometry)) {
    auto matrix = squares.view({weight_sizes[0], -1});
    const auto rows = dz.permute({0, 2, 3, 1}).reshape({-1, weight_sizes[0]});
    return linear_squares(patch_rows(x, dz, weight_sizes), rows, matrix, examples_per_group * dz.size(2) * dz.size(3))
        .view(weight_sizes);
  }
  const auto call =
      weight_gradient_call(x, dz, shape_of(x, weight_sizes, geometry), convolutions_round(),
                           spatial ? GradientSquares::kSpatial : GradientSquares::kGroups, examples_per_group);
  const auto target = added_to(squares, c10::multiply_integers(weight_sizes));
  if (!rounds_squares(call)) return weight_gradient_by_kernel(call, x, weight_sizes, target);
  add_rounded_squares(call, x, dz, weight_sizes, target);
  return library_weight_gradient(dz, x, empty_channels_last(weight_sizes, x), geometry);
}

at::Tensor bias_squares(const at::Tensor& dz_any, at::Tensor& squares, std::int64_t examples_per_group, bool spatial) {
  const c10::cuda::CUDAGuard guard(dz_any.device());
  TORCH_CHECK(examples_per_group > 0 && dz_any.size(0) % examples_per_group == 0, "bias gradient: ", dz_any.size(0),
              " examples are not a whole number of groups of ", examples_per_group);
  if (!has_general_kernels(dz_any))
    return portable::bias_gradient_squares(dz_any, squares, examples_per_group, spatial);
  const std::int64_t examples = dz_any.size(0), outputs = dz_any.size(1);
  if (spatial && dz_any.dim() == 4) squares.add_(dz_any.to(squares.scalar_type()).square().sum({0, 2, 3}));
  // ATen sums over positions quickly; what is left is one number per example and output.
  const auto dz = dz_any.dim() == 4 ? dz_any.sum({2, 3}, false, squares.scalar_type()) : dz_any.contiguous();
  if (spatial && dz_any.dim() == 4) return dz.sum(0);
  auto gradient = at::empty({outputs}, squares.options());
  bias_gradient(dz.data_ptr(), scalar_of(dz), static_cast<int>(examples), static_cast<int>(outputs),
                spatial ? 1 : static_cast<int>(examples_per_group), gradient.data_ptr<float>(),
                added_to(squares, outputs), current_stream());
  return gradient;
}

}  // namespace

TORCH_LIBRARY_IMPL(covnoise, CUDA, m) {
  m.impl("convolution", convolution);
  m.impl("convolution_gradients", gradients);
  m.impl("conv2d_weight_gradient_squares", convolution_squares);
  m.impl("linear_weight_gradient_squares", linear_squares);
  m.impl("linear_weight_gradient", linear_gradient);
  m.impl("bias_gradient_squares", bias_squares);
}

}  // namespace covnoise::cuda
