#include "covnoise/nn/loss.h"

#include <torch/types.h>

namespace covnoise {

at::Tensor cross_entropy_losses(const at::Tensor& logits, const at::Tensor& labels) {
  return torch::nll_loss(torch::log_softmax(logits, 1), labels, /*weight=*/{}, at::Reduction::None);
}

}  // namespace covnoise
