#include "covnoise/train/evaluate.h"

#include "covnoise/nn/loss.h"

#include <algorithm>

namespace covnoise {

Evaluation evaluate(Model& model, const Loader& loader, Communicator* ranks,
                    const std::function<void()>& before_slice) {
  const std::int64_t slice = loader.device().is_cuda() ? 5000 : 500;
  const std::int64_t slices = (loader.size() + slice - 1) / slice;
  const std::int64_t stride = ranks ? ranks->size() : 1;
  const auto examples_of = [&](std::int64_t i) {
    return torch::arange(i * slice, std::min(loader.size(), (i + 1) * slice));
  };
  const torch::NoGradGuard no_grad;
  const bool training = model.is_training();
  model.eval();
  // Sums of losses and of correct answers per slice, added up in order, whichever rank computed them.
  auto sums = torch::zeros({slices, 2}, torch::TensorOptions(loader.device()).dtype(torch::kFloat64));
  for (std::int64_t i = ranks ? ranks->rank() : 0; i < slices; i += stride) {
    before_slice();
    const auto indices = examples_of(i);
    const auto labels = loader.labels(indices);
    const auto images = loader.plain_images(indices);
    if (i + stride < slices) loader.prefetch(examples_of(i + stride));
    const auto logits = model.forward(images);
    sums[i][0].copy_(cross_entropy_losses(logits, labels).sum(at::kDouble));
    sums[i][1].copy_(logits.argmax(1).eq(labels).sum());
  }
  model.train(training);
  if (ranks) ranks->all_reduce(sums);
  sums = sums.cpu();
  Evaluation result;
  result.examples = loader.size();
  for (std::int64_t i = 0; i < slices; ++i) {
    result.loss += sums[i][0].item<double>();
    result.accuracy += sums[i][1].item<double>();
  }
  result.loss /= static_cast<double>(result.examples);
  result.accuracy /= static_cast<double>(result.examples);
  return result;
}

}  // namespace covnoise
