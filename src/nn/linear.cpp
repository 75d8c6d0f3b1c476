#include "covnoise/nn/linear.h"

#include "covnoise/ops/device.h"
#include "covnoise/ops/weight_gradient.h"
#include "nn/recording.h"

#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>
#include <utility>

namespace covnoise {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A network in low precision has parameters and statistics in float32.
bool mixed(const at::Tensor& x, const at::Tensor& weight) { return x.scalar_type() != weight.scalar_type(); }

at::Tensor bias_gradient(const at::Tensor& dz, const at::Tensor& weight) {
  return dz.sum(0, false, weight.scalar_type());
}

void add_kronecker(LayerRecord& record, const at::Tensor& x, const at::Tensor& dz, const at::Tensor& weight,
                   bool has_bias) {
  const auto xi = recording::normals_like(dz, record);
  recording::add_to(record.weight_draw, linear_weight_gradient(x, xi));
  if (has_bias) recording::add_to(record.bias_draw, bias_gradient(xi, weight));
  recording::add_to(record.output_factor, linear_weight_gradient(dz, dz));
}

// g_i = dz_i a_i^T, so that <g_i, g_j> = (a_i . a_j) (dz_i . dz_j); the bias adds dz_i . dz_j. Fourth powers likewise.
void add_gram(LayerRecord& record, const at::Tensor& a, const at::Tensor& dz, bool has_bias) {
  auto inputs = a.mm(a.t());
  if (has_bias) inputs.add_(1);
  recording::add_to(record.gram, inputs.mul_(dz.mm(dz.t())));
  auto fourth = a.pow(4).sum(1);
  if (has_bias) fourth.add_(1);
  recording::add_to(record.fourth_powers, fourth.dot(dz.pow(4).sum(1)));
}

// Gradients of weight and bias.
std::pair<at::Tensor, at::Tensor> add_squares(LayerRecord& record, const recording::Operands& operands,
                                              const at::Tensor& weight, bool has_bias) {
  const auto& [a, dz, group] = operands;
  if (!record.weight_squares.defined()) record.weight_squares = at::zeros_like(weight);
  if (!has_bias) return {linear_weight_gradient_squares(a, dz, record.weight_squares, group), at::Tensor()};
  if (!record.bias_squares.defined()) record.bias_squares = at::zeros({weight.size(0)}, weight.options());
  at::Tensor dbias;
  const SideStream side_stream(dz.device(), [&] {
    dbias = bias_gradient_squares(operands.dz, record.bias_squares, operands.rows_per_group, false);
  });
  return {linear_weight_gradient_squares(a, dz, record.weight_squares, group), dbias};
}

/// Of this call, or with the last of several calls of all of them; nothing before that.
std::optional<recording::Operands> operands_of(const recording::Call& call, const at::Tensor& x, const at::Tensor& dz) {
  if (call.several()) return recording::add_operands(call, x, dz);
  const std::int64_t rows_per_group = recording::rows_per_group(*call.record, x.size(0));
  return recording::Operands{x, dz, rows_per_group};
}

struct AccountedLinear : torch::autograd::Function<AccountedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const OptionalTensor& bias, const recording::Record& record) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    recording::save_call(context, record, x.size(0));
    if (record) record->positions = recording::rows_per_example(*record, x.size(0));
    if (!mixed(x, weight)) return at::linear(x, weight, bias);
    const auto type = x.scalar_type();
    return at::linear(x, weight.to(type), bias.has_value() ? OptionalTensor(bias->to(type)) : bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    recording::refuse_second_derivative("Linear");
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &dz = gradients[0];
    const bool has_bias = context->saved_data["has_bias"].toBool();
    const auto call = recording::saved_call(context);
    const LayerRequest request = call.request();
    if (request.kronecker) add_kronecker(*call.record, x, dz, weight, has_bias);
    if (request.gram) add_gram(*call.record, x.to(weight.scalar_type()), dz.to(weight.scalar_type()), has_bias);
    const auto dx = context->needs_input_grad(0) ? dz.mm(weight.to(x.scalar_type())) : at::Tensor();
    if (request.squares != Squares::kNone) {
      const auto all = operands_of(call, x, dz);
      if (!all) return {dx, at::Tensor(), at::Tensor(), at::Tensor()};  // the last call has the gradient of all
      const auto [dweight, dbias] = add_squares(*call.record, *all, weight, has_bias);
      return {dx, dweight, dbias, at::Tensor()};
    }
    return {dx, linear_weight_gradient(x, dz), has_bias ? bias_gradient(dz, weight) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

LinearImpl::LinearImpl(const torch::nn::LinearOptions& options) {
  TORCH_CHECK(options.in_features() > 0 && options.out_features() > 0, "Linear: sizes ", options.in_features(), " and ",
              options.out_features(), " must be positive");
  const double bound = 1 / std::sqrt(static_cast<double>(options.in_features()));
  weight = register_parameter("weight", torch::empty({options.out_features(), options.in_features()}));
  torch::nn::init::uniform_(weight, -bound, bound);
  if (!options.bias()) return;
  bias = register_parameter("bias", torch::empty({options.out_features()}));
  torch::nn::init::uniform_(bias, -bound, bound);
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  const auto record = recording::wanted_record(*this);
  if (!record && !mixed(x, weight)) return at::linear(x, weight, bias);
  TORCH_CHECK(x.dim() >= 2, "Linear accounts for examples of an input [M, ..., in], not ", x.sizes());
  if (x.dim() == 2) return AccountedLinear::apply(x, weight, if_defined(bias), record);
  TORCH_CHECK(!record || record->examples == 0 || x.size(0) == record->examples, "layer '", record->name,
              "' gets an input ", x.sizes(), " for ", record->examples,
              " examples: squares need the examples in the first dimension");
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return AccountedLinear::apply(x.reshape({-1, x.size(-1)}), weight, if_defined(bias), record).view(sizes);
}

}  // namespace covnoise
