#include "covnoise/nn/conv2d.h"

#include "covnoise/ops/convolution.h"
#include "covnoise/ops/weight_gradient.h"
#include "nn/recording.h"
#include "nn/unfold.h"

#include <torch/nn/init.h>
#include <torch/types.h>

#include <utility>
#include <variant>

namespace covnoise {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One backward pass: x [M, C, H, W], dz [M, O, H', W'].
struct Pass {
  at::Tensor x, weight, dz;
  ConvolutionGeometry geometry;
  bool has_bias;
};

at::Tensor bias_gradient(const Pass& pass) { return pass.dz.sum({0, 2, 3}, false, pass.weight.scalar_type()); }

// KFC (Grosse and Martens 2016): A = sum_i sum_t a a^T over patches a, of which the weight's gradient with normal
// numbers in place of dz is a draw; G = sum_i sum_t dz dz^T.
void add_kronecker(LayerRecord& record, const Pass& pass) {
  Pass drawn = pass;
  drawn.dz = recording::normals_like(pass.dz, record);
  const auto gradients = convolution_gradients(drawn.dz, pass.x, pass.weight, pass.geometry, false, true);
  recording::add_to(record.weight_draw, std::get<1>(gradients));
  if (pass.has_bias) recording::add_to(record.bias_draw, bias_gradient(drawn));
  const auto rows = pass.dz.permute({0, 2, 3, 1}).reshape({-1, pass.dz.size(1)});
  recording::add_to(record.output_factor, linear_weight_gradient(rows, rows));
}

void add_gram(LayerRecord& record, const Pass& pass) {
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    return per_example_gradients(pass.x.slice(0, begin, end), pass.dz.slice(0, begin, end), pass.weight.sizes(),
                                 pass.geometry);
  };
  recording::add_gram_of_blocks(record, pass.x.size(0), pass.weight.numel(), rows);
  if (pass.has_bias) recording::add_gram_of(record, pass.dz.sum({2, 3}));
}

// Gradients of weight and bias. `group` rows of x are summed before squaring.
std::pair<at::Tensor, at::Tensor> add_squares(LayerRecord& record, const Pass& pass, std::int64_t group) {
  const bool spatial = record.request.squares == Squares::kSpatial;
  const auto& geometry = pass.geometry;
  if (!record.weight_squares.defined()) record.weight_squares = at::zeros_like(pass.weight);
  auto gradient =
      conv2d_weight_gradient_squares(pass.x, pass.dz, record.weight_squares, pass.weight.sizes(), geometry.stride,
                                     geometry.padding, geometry.dilation, geometry.groups, group, spatial);
  if (!pass.has_bias) return {gradient, at::Tensor()};
  if (!record.bias_squares.defined()) record.bias_squares = at::zeros({pass.weight.size(0)}, pass.weight.options());
  return {gradient, bias_gradient_squares(pass.dz, record.bias_squares, group, spatial)};
}

void save_geometry(AutogradContext* context, const ConvolutionGeometry& geometry) {
  context->saved_data["stride"] = geometry.stride;
  context->saved_data["padding"] = geometry.padding;
  context->saved_data["dilation"] = geometry.dilation;
  context->saved_data["groups"] = geometry.groups;
}

ConvolutionGeometry saved_geometry(AutogradContext* context) {
  auto& data = context->saved_data;
  return {data["stride"].toIntVector(), data["padding"].toIntVector(), data["dilation"].toIntVector(),
          data["groups"].toInt()};
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                    const ConvolutionGeometry& geometry) {
  return convolution(x, weight, or_undefined(bias), geometry);
}

/// The gradients of a convolution as a differentiable function of (dz, x, weight). LibTorch's own second derivative
/// computes weight gradients as convolutions with kernels as large as the image, several times slower than this.
struct ConvolutionGradients : torch::autograd::Function<ConvolutionGradients> {
  /// (dx, dweight), or dweight alone.
  static variable_list forward(AutogradContext* context, const at::Tensor& dz, const at::Tensor& x,
                               const at::Tensor& weight, const ConvolutionGeometry& geometry, bool input) {
    context->save_for_backward({dz, x, weight});
    save_geometry(context, geometry);
    const auto [dx, dweight] = convolution_gradients(dz, x, weight, geometry, input, true);
    return input ? variable_list{dx, dweight} : variable_list{dweight};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    recording::refuse_second_derivative("the gradients of Conv2d");
    const auto saved = context->get_saved_variables();
    const auto &dz = saved[0], &x = saved[1], &weight = saved[2];
    const auto geometry = saved_geometry(context);
    const auto &for_dweight = gradients.back(), &for_dx = gradients.size() == 2 ? gradients[0] : at::Tensor();
    at::Tensor to_dz, to_x, to_weight;
    if (for_dx.defined()) {
      to_dz = convolve(for_dx, weight, {}, geometry);
      to_weight = std::get<1>(convolution_gradients(dz, for_dx, weight, geometry, false, true));
    }
    if (for_dweight.defined()) {
      recording::add_to(to_dz, convolve(x, for_dweight, {}, geometry));
      if (context->needs_input_grad(1))
        to_x = std::get<0>(convolution_gradients(dz, x, for_dweight, geometry, true, false));
    }
    return {to_dz, to_x, to_weight, at::Tensor(), at::Tensor()};
  }
};

/// Plain and twice differentiable.
struct PlainConv2d : torch::autograd::Function<PlainConv2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const OptionalTensor& bias, const ConvolutionGeometry& geometry) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    save_geometry(context, geometry);
    return convolve(x, weight, bias, geometry);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const bool input = context->needs_input_grad(0);
    auto result = ConvolutionGradients::apply(gradients[0], saved[0], saved[1], saved_geometry(context), input);
    const auto dbias = context->saved_data["has_bias"].toBool()
                           ? gradients[0].sum({0, 2, 3}, false, saved[1].scalar_type())
                           : at::Tensor();
    return {input ? result[0] : at::Tensor(), result.back(), dbias, at::Tensor()};
  }
};

struct AccountedConv2d : torch::autograd::Function<AccountedConv2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const OptionalTensor& bias, const ConvolutionGeometry& geometry,
                            const recording::Record& record) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    save_geometry(context, geometry);
    auto y = convolve(x, weight, bias, geometry);
    recording::save_call(context, record, x.size(0));
    record->positions = recording::rows_per_example(*record, x.size(0)) * y.size(2) * y.size(3);
    return y;
  }

  static Pass saved_pass(AutogradContext* context, const at::Tensor& dz) {
    const auto saved = context->get_saved_variables();
    return {saved[0], saved[1], dz, saved_geometry(context), context->saved_data["has_bias"].toBool()};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    recording::refuse_second_derivative("Conv2d");
    auto pass = saved_pass(context, gradients[0]);
    pass.dz = pass.dz.contiguous(pass.x.suggest_memory_format());
    const auto& geometry = pass.geometry;
    const auto call = recording::saved_call(context);
    const LayerRequest request = call.request();
    const bool squares = request.squares != Squares::kNone;
    if (request.kronecker && geometry.groups == 1) add_kronecker(*call.record, pass);
    if (request.gram) add_gram(*call.record, pass);
    const auto [dx, dweight] =
        convolution_gradients(pass.dz, pass.x, pass.weight, geometry, context->needs_input_grad(0), !squares);
    if (squares) {
      std::int64_t group = recording::rows_per_group(*call.record, pass.x.size(0));
      if (call.several() && request.squares != Squares::kSpatial) {  // squares of positions add up over calls
        const auto all = recording::add_operands(call, pass.x, pass.dz);
        if (!all) return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};  // the last call has all of them
        pass.x = all->x, pass.dz = all->dz, group = all->rows_per_group;
      }
      const auto [accounted, dbias] = add_squares(*call.record, pass, group);
      return {dx, accounted, dbias, at::Tensor(), at::Tensor()};
    }
    const auto dbias = pass.has_bias ? bias_gradient(pass) : at::Tensor();
    return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

std::vector<std::int64_t> fixed_padding(const torch::nn::Conv2dOptions& options) {
  using std::get_if;  // LibTorch 1.13 finds its own c10::get_if by the argument's namespace
  const auto* padding = get_if<torch::ExpandingArray<2>>(&options.padding());
  TORCH_CHECK(padding && get_if<torch::enumtype::kZeros>(&options.padding_mode()),
              "Conv2d: padding must be a number of zeros");
  return at::IntArrayRef(*padding).vec();
}

}  // namespace

Conv2dImpl::Conv2dImpl(const torch::nn::Conv2dOptions& options)
    : stride_(at::IntArrayRef(options.stride()).vec()),
      padding_(fixed_padding(options)),
      dilation_(at::IntArrayRef(options.dilation()).vec()),
      groups_(options.groups()) {
  TORCH_CHECK(groups_ > 0 && options.in_channels() % groups_ == 0 && options.out_channels() % groups_ == 0,
              "Conv2d: ", groups_, " groups do not divide ", options.in_channels(), " and ", options.out_channels(),
              " channels");
  const auto kernel = at::IntArrayRef(options.kernel_size());
  weight = register_parameter(
      "weight", torch::empty({options.out_channels(), options.in_channels() / groups_, kernel[0], kernel[1]}));
  torch::nn::init::kaiming_normal_(weight, 0, torch::kFanOut, torch::kReLU);
  if (options.bias()) bias = register_parameter("bias", torch::zeros({options.out_channels()}));
}

at::Tensor Conv2dImpl::forward(const at::Tensor& x) {
  const ConvolutionGeometry geometry{stride_, padding_, dilation_, groups_};
  const auto shift = if_defined(bias);
  if (const auto record = recording::wanted_record(*this))
    return AccountedConv2d::apply(x, weight, shift, geometry, record);
  return PlainConv2d::apply(x, weight, shift, geometry);
}

}  // namespace covnoise
