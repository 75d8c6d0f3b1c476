#include "covnoise/nn/loss.h"

#include <torch/types.h>

namespace covnoise {

at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto log_p = torch::log_softmax(logits, 1, type);
  const auto losses = torch::nll_loss(log_p, labels, /*weight=*/{}, at::Reduction::None);
  return smoothing == 0 ? losses : losses * (1 - smoothing) - log_p.mean(1) * smoothing;
}

}  // namespace covnoise
