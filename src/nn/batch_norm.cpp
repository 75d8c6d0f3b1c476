#include "covnoise/nn/batch_norm.h"

#include "covnoise/ops/ghost_batch_norm.h"
#include "nn/recording.h"

#include <torch/types.h>

#include <algorithm>

namespace covnoise {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The rows' contributions to the gradients of scale and shift [M, C].
struct Contributions {
  at::Tensor weight, bias;
};

Contributions contributions_of(const at::Tensor& d, const at::Tensor& xhat) {
  return {(d * xhat).sum({2, 3}), d.sum({2, 3})};
}

void add_gram(LayerRecord& record, const Contributions& rows) {
  recording::add_gram_of(record, rows.weight);
  recording::add_gram_of(record, rows.bias);
}

at::Tensor channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

// One value for each ghost batch and channel [G, C], for each example of x.
at::Tensor by_example(const at::Tensor& values, const at::Tensor& x) {
  return values.repeat_interleave(x.size(0) / values.size(0), 0).unsqueeze(2).unsqueeze(3);
}

struct TrainingBatchNorm : torch::autograd::Function<TrainingBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const OptionalTensor& residual, const GhostBatchNorm2dImpl& layer,
                            bool relu, const recording::Record& record) {
    const GhostNorm norm{layer.ghost_batch() > 0 ? layer.ghost_batch() : x.size(0), layer.momentum(), layer.eps(),
                         relu};
    const bool has_residual = residual.has_value();
    const auto [y, moments] =
        ghost_batch_norm(x, weight, bias, layer.running_mean, layer.running_var, norm, or_undefined(residual));
    // The output costs no memory: it is the input of the next layer, which keeps it too.
    context->save_for_backward({x, weight, moments, relu ? y : at::Tensor()});
    context->saved_data["ghost_batch"] = norm.ghost_batch;
    context->saved_data["relu"] = relu;
    context->saved_data["residual"] = has_residual;
    recording::save_call(context, record, x.size(0));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    recording::refuse_second_derivative("batch normalisation in training mode");
    const auto saved = context->get_saved_variables();
    const auto &dy = gradients[0], &x = saved[0], &weight = saved[1], &moments = saved[2], &y = saved[3];
    GhostNorm norm;
    norm.ghost_batch = context->saved_data["ghost_batch"].toInt();
    norm.relu = context->saved_data["relu"].toBool();
    const bool residual = context->saved_data["residual"].toBool();
    const auto call = recording::saved_call(context);
    const bool wants_squares = call.request().squares != Squares::kNone, alone = wants_squares && !call.several();
    if (call.request().gram || (wants_squares && !alone)) {
      const auto rows = contributions_of(saved, dy, norm.relu);
      if (call.request().gram) add_gram(*call.record, rows);
      if (wants_squares && !alone) recording::add_squares_of_rows(call, rows.weight, rows.bias);
    }
    const auto squares = alone ? squares_of(*call.record, weight, x.size(0)) : GhostNormSquares();
    const auto result = ghost_batch_norm_backward(dy, x, y, weight, moments, norm, residual, squares);
    return {result.dx, result.dweight, result.dbias, result.dresidual, at::Tensor(), at::Tensor(), at::Tensor()};
  }

  static Contributions contributions_of(const variable_list& saved, const at::Tensor& dy, bool relu) {
    const auto &x = saved[0], &weight = saved[1], &moments = saved[2], &y = saved[3];
    const auto type = weight.scalar_type();
    const auto xhat = (x.to(type) - by_example(moments[0], x)) * by_example(moments[1], x);
    if (!relu) return covnoise::contributions_of(dy.to(type), xhat);
    return covnoise::contributions_of(at::threshold_backward(dy.to(type), y.to(type), 0), xhat);
  }

  static GhostNormSquares squares_of(LayerRecord& record, const at::Tensor& weight, std::int64_t rows) {
    const std::int64_t rows_per_group = recording::rows_per_group(record, rows);
    if (!record.weight_squares.defined()) record.weight_squares = at::zeros_like(weight);
    if (!record.bias_squares.defined()) record.bias_squares = at::zeros_like(weight);
    return {record.weight_squares, record.bias_squares, rows_per_group};
  }
};

// With running statistics: y = weight (x - running_mean) rstd + bias.
struct EvaluationBatchNorm : torch::autograd::Function<EvaluationBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const GhostBatchNorm2dImpl& layer,
                            const recording::Record& record) {
    context->save_for_backward({x, weight, layer.running_mean, (layer.running_var + layer.eps()).rsqrt()});
    recording::save_call(context, record, x.size(0));
    return at::batch_norm(x, weight, bias, layer.running_mean, layer.running_var, false, 0, layer.eps(), false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    recording::refuse_second_derivative("batch normalisation");
    const auto saved = context->get_saved_variables();
    const auto xhat = (saved[0] - channel(saved[2])) * channel(saved[3]);
    const auto& dy = gradients[0];
    const auto rows = contributions_of(dy, xhat);
    const auto call = recording::saved_call(context);
    if (call.request().squares != Squares::kNone) recording::add_squares_of_rows(call, rows.weight, rows.bias);
    if (call.request().gram) add_gram(*call.record, rows);
    return {dy * channel(saved[1] * saved[3]), rows.weight.sum(0), rows.bias.sum(0), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

GhostBatchNorm2dImpl::GhostBatchNorm2dImpl(const torch::nn::BatchNormOptions& options, std::int64_t ghost_batch)
    : eps_(options.eps()) {
  TORCH_CHECK(options.affine() && options.track_running_stats() && options.momentum().has_value(),
              "batch normalisation: affine, track_running_stats and a momentum are required");
  set_ghost_batch(ghost_batch);
  momentum_ = *options.momentum();
  weight = register_parameter("weight", torch::ones({options.num_features()}));
  bias = register_parameter("bias", torch::zeros({options.num_features()}));
  running_mean = register_buffer("running_mean", torch::zeros({options.num_features()}));
  running_var = register_buffer("running_var", torch::ones({options.num_features()}));
}

void GhostBatchNorm2dImpl::set_ghost_batch(std::int64_t ghost_batch) {
  TORCH_CHECK(ghost_batch >= 0, "a ghost batch of ", ghost_batch, " examples: it must be positive, or 0 for the batch");
  ghost_batch_ = ghost_batch;
}

void GhostBatchNorm2dImpl::become_shift(const at::Tensor& sign) {
  shift_only_ = true;
  sign_ = sign;
}

void GhostBatchNorm2dImpl::count(const at::Tensor& x) {
  ++calls_.calls;
  calls_.rows += x.size(0);
}

at::Tensor GhostBatchNorm2dImpl::forward(const at::Tensor& x) {
  count(x);
  if (is_training() && !shift_only_)
    return TrainingBatchNorm::apply(x, weight, bias, OptionalTensor(), *this, false, recording::wanted_record(*this));
  return outside_training(x);
}

at::Tensor GhostBatchNorm2dImpl::forward_relu(const at::Tensor& x, const at::Tensor& residual) {
  count(x);
  if (is_training() && !shift_only_)
    return TrainingBatchNorm::apply(x, weight, bias, if_defined(residual), *this, true,
                                    recording::wanted_record(*this));
  auto y = outside_training(x);
  return (residual.defined() ? y.add_(residual) : y).relu_();
}

at::Tensor GhostBatchNorm2dImpl::outside_training(const at::Tensor& x) const {
  if (shift_only_) return (sign_.defined() ? x * channel(sign_) : x) + channel(bias);
  if (const auto record = recording::wanted_record(*this))
    return EvaluationBatchNorm::apply(x, weight, bias, *this, record);
  return at::batch_norm(x, weight, bias, running_mean, running_var, false, momentum_, eps_, false);
}

at::Tensor GhostBatchNorm1dImpl::as_images(const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 2, "batch normalisation of features takes [M, C], not ", x.sizes());
  return x.unsqueeze(2).unsqueeze(3);
}

std::vector<NamedNormalisation> normalisation_layers(torch::nn::Module& module) {
  std::vector<NamedNormalisation> layers;
  module.apply([&](const std::string& name, torch::nn::Module& part) {
    auto* layer = part.as<GhostBatchNorm2dImpl>();
    const auto known = [&](const NamedNormalisation& other) { return other.layer == layer; };
    if (layer && std::none_of(layers.begin(), layers.end(), known)) layers.push_back({name, layer});
  });
  return layers;
}

void set_ghost_batch(torch::nn::Module& module, std::int64_t ghost_batch) {
  for (const auto& [name, layer] : normalisation_layers(module)) layer->set_ghost_batch(ghost_batch);
}

}  // namespace covnoise
