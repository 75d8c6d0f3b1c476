#include "covnoise/train/evaluate.h"

#include "covnoise/nn/loss.h"

#include <algorithm>

namespace covnoise {

Evaluation evaluate(Model& model, const Loader& loader) {
  constexpr std::int64_t kSlice = 500;
  const torch::NoGradGuard no_grad;
  const bool training = model.is_training();
  model.eval();
  Evaluation result;
  std::int64_t correct = 0;
  for (std::int64_t first = 0; first < loader.size(); first += kSlice) {
    const auto indices = torch::arange(first, std::min(loader.size(), first + kSlice));
    const auto labels = loader.labels(indices);
    const auto logits = model.forward(loader.plain_images(indices));
    const auto losses = cross_entropy_losses(logits, labels);
    result.loss += losses.sum(at::kDouble).item<double>();
    correct += logits.argmax(1).eq(labels).sum().item<std::int64_t>();
  }
  model.train(training);
  result.examples = loader.size();
  result.loss /= static_cast<double>(result.examples);
  result.accuracy = static_cast<double>(correct) / static_cast<double>(result.examples);
  return result;
}

}  // namespace covnoise
