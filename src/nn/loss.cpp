#include "covnoise/nn/loss.h"

#include <torch/types.h>

#include <cmath>
#include <utility>

namespace covnoise {
namespace {

/// Losses are computed in float32 at least.
at::ScalarType loss_type(const at::Tensor& outputs) {
  return outputs.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// The label whose slice of the cumulated probabilities holds a uniform number.
at::Tensor drawn_labels(const at::Tensor& logits, const UniformNumbers& uniform) {
  const auto probabilities = torch::softmax(logits.detach().to(at::kDouble), 1).cumsum(1);
  return probabilities.lt(uniform(1)).sum(1).clamp_max(logits.size(1) - 1);
}

/// Outputs and targets [M, d]. Broadcasting [M] against [M, 1] would compare every prediction with every target.
std::pair<at::Tensor, at::Tensor> by_outputs(const char* loss, const at::Tensor& outputs, const at::Tensor& targets) {
  TORCH_CHECK(outputs.dim() >= 1 && outputs.sizes() == targets.sizes(), loss, ": outputs ", outputs.sizes(),
              " and targets ", targets.sizes(), " must have the same sizes [M, ...]");
  const auto type = loss_type(outputs);
  return {outputs.to(type).reshape({outputs.size(0), -1}), targets.to(type).reshape({outputs.size(0), -1})};
}

at::Tensor squared_errors(const at::Tensor& predictions, const at::Tensor& targets) {
  return (predictions - targets).square().mean(1);
}

at::Tensor binary_losses(const at::Tensor& logits, const at::Tensor& targets) {
  return at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None).mean(1);
}

}  // namespace

at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto log_p = torch::log_softmax(logits, 1, loss_type(logits));
  const auto losses = torch::nll_loss(log_p, labels, /*weight=*/{}, at::Reduction::None);
  return smoothing == 0 ? losses : losses * (1 - smoothing) - log_p.mean(1) * smoothing;
}

Losses cross_entropy(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  TORCH_CHECK(logits.dim() == 2, "cross entropy takes logits [M, classes], not ", logits.sizes());
  TORCH_CHECK(smoothing >= 0 && smoothing < 1, "label smoothing ", smoothing, " must be at least 0 and below 1");
  Losses losses(cross_entropy_losses(logits, labels, smoothing));
  losses.correct = logits.detach().argmax(1).eq(labels);
  losses.of_drawn_labels = [logits](const UniformNumbers& uniform) {
    return cross_entropy_losses(logits, drawn_labels(logits, uniform));
  };
  return losses;
}

Losses mean_squared_error(const at::Tensor& predictions, const at::Tensor& targets) {
  const auto [outputs, wanted] = by_outputs("mean squared error", predictions, targets);
  Losses losses(squared_errors(outputs, wanted));
  losses.of_drawn_labels = [outputs = outputs](const UniformNumbers& uniform) {
    const auto normal = at::erfinv(uniform(outputs.size(1)).mul(2).sub(1)).mul(std::sqrt(2.0));
    const auto drawn = outputs.detach() + normal * std::sqrt(static_cast<double>(outputs.size(1)) / 2);
    return squared_errors(outputs, drawn.to(outputs.scalar_type()));
  };
  return losses;
}

Losses binary_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const auto [outputs, wanted] = by_outputs("binary cross entropy", logits, targets);
  Losses losses(binary_losses(outputs, wanted));
  losses.correct = outputs.detach().gt(0).eq(wanted.gt(0.5)).all(1);
  losses.of_drawn_labels = [outputs = outputs](const UniformNumbers& uniform) {
    const auto drawn = uniform(outputs.size(1)).lt(torch::sigmoid(outputs.detach().to(at::kDouble)));
    return binary_losses(outputs, drawn.to(outputs.scalar_type()));
  };
  return losses;
}

}  // namespace covnoise
