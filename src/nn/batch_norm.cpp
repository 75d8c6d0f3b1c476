#include "covnoise/nn/batch_norm.h"

#include "covnoise/ops/ghost_batch_norm.h"
#include "nn/statistics.h"

#include <torch/types.h>

namespace covnoise {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The examples' contributions to the gradients of scale and shift [M, C].
void account(LayerRecord& record, const at::Tensor& dweight, const at::Tensor& dbias) {
  if (record.request.squares != Squares::kNone) {
    const std::int64_t group = statistics::examples_per_group(record.request, dweight.size(0));
    statistics::add_to(record.weight_squares, statistics::sum_of_squares(dweight, group));
    statistics::add_to(record.bias_squares, statistics::sum_of_squares(dbias, group));
  }
  if (record.request.gram) {
    statistics::add_gram_of(record, dweight);
    statistics::add_gram_of(record, dbias);
  }
}

variable_list finish(AutogradContext* context, const at::Tensor& dx, const at::Tensor& dweight,
                     const at::Tensor& dbias) {
  const auto record = statistics::saved_record(context);
  if (record && record->request.any()) account(*record, dweight, dbias);
  return {dx, dweight.sum(0), dbias.sum(0), at::Tensor()};
}

struct TrainingBatchNorm : torch::autograd::Function<TrainingBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const GhostBatchNorm2dImpl& layer) {
    const std::int64_t ghost_batch = layer.ghost_batch() > 0 ? layer.ghost_batch() : x.size(0);
    const auto [y, mean, rstd] = ghost_batch_norm(x, weight, bias, layer.running_mean, layer.running_var, ghost_batch,
                                                  layer.momentum(), layer.eps());
    context->save_for_backward({x, weight, mean, rstd});
    context->saved_data["ghost_batch"] = ghost_batch;
    statistics::save_record(context, layer.record());
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    statistics::refuse_second_derivative("batch normalisation in training mode");
    const auto saved = context->get_saved_variables();
    const auto [dx, dweight, dbias] = ghost_batch_norm_backward(gradients[0], saved[0], saved[1], saved[2], saved[3],
                                                                context->saved_data["ghost_batch"].toInt());
    return finish(context, dx, dweight, dbias);
  }
};

// With running statistics: y = weight (x - running_mean) rstd + bias.
struct EvaluationBatchNorm : torch::autograd::Function<EvaluationBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const GhostBatchNorm2dImpl& layer) {
    context->save_for_backward({x, weight, layer.running_mean, (layer.running_var + layer.eps()).rsqrt()});
    statistics::save_record(context, layer.record());
    return at::batch_norm(x, weight, bias, layer.running_mean, layer.running_var, false, 0, layer.eps(), false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    statistics::refuse_second_derivative("batch normalisation");
    const auto saved = context->get_saved_variables();
    const auto channel = [](const at::Tensor& values) { return values.view({1, -1, 1, 1}); };
    const auto xhat = (saved[0] - channel(saved[2])) * channel(saved[3]);
    const auto& dy = gradients[0];
    return finish(context, dy * channel(saved[1] * saved[3]), (dy * xhat).sum({2, 3}), dy.sum({2, 3}));
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

void GhostBatchNorm2dImpl::become_shift() { shift_only_ = true; }

at::Tensor GhostBatchNorm2dImpl::forward(const at::Tensor& x) {
  if (shift_only_) return x + bias.view({1, -1, 1, 1});
  if (is_training()) return TrainingBatchNorm::apply(x, weight, bias, *this);
  if (statistics::wanted(*this)) return EvaluationBatchNorm::apply(x, weight, bias, *this);
  return at::batch_norm(x, weight, bias, running_mean, running_var, false, momentum_, eps_, false);
}

void set_ghost_batch(torch::nn::Module& module, std::int64_t ghost_batch) {
  module.apply([&](torch::nn::Module& part) {
    if (auto* layer = part.as<GhostBatchNorm2dImpl>()) layer->set_ghost_batch(ghost_batch);
  });
}

}  // namespace covnoise
