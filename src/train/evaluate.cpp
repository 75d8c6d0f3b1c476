#include "covnoise/train/evaluate.h"

#include "covnoise/nn/loss.h"

#include <algorithm>

namespace covnoise {

Evaluation evaluate(Model& model, const Loader& loader) {
  const std::int64_t slice = loader.device().is_cuda() ? 5000 : 500;
  const torch::NoGradGuard no_grad;
  const bool training = model.is_training();
  model.eval();
  std::vector<at::Tensor> losses, correct;
  for (std::int64_t first = 0; first < loader.size(); first += slice) {
    const auto indices = torch::arange(first, std::min(loader.size(), first + slice));
    const auto labels = loader.labels(indices);
    const auto logits = model.forward(loader.plain_images(indices));
    losses.push_back(cross_entropy_losses(logits, labels).sum(at::kDouble));
    correct.push_back(logits.argmax(1).eq(labels).sum());
  }
  model.train(training);
  Evaluation result;
  result.examples = loader.size();
  for (const auto& loss : losses) result.loss += loss.item<double>();
  for (const auto& count : correct) result.accuracy += static_cast<double>(count.item<std::int64_t>());
  result.loss /= static_cast<double>(result.examples);
  result.accuracy /= static_cast<double>(result.examples);
  return result;
}

}  // namespace covnoise
