#include "covnoise/nn/loss.h"

#include <torch/types.h>

namespace covnoise {

at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels) {
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return torch::nll_loss(torch::log_softmax(logits, 1, type), labels, /*weight=*/{}, at::Reduction::None);
}

}  // namespace covnoise
