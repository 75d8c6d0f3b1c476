#include "covnoise/analysis/frobenius.h"

#include "analysis/sampling.h"
#include "covnoise/core/error.h"
#include "covnoise/nn/loss.h"
#include "covnoise/nn/recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

namespace covnoise {
namespace {

/// Gram matrix and fourth powers of all layers together.
struct PairSums {
  at::Tensor gram;
  double fourth_powers = 0;
};

PairSums pair_sums(const Recorder& recorder) {
  PairSums sums;
  for (const auto& layer : recorder.layers()) {
    const auto gram = layer.record->gram.to(at::kDouble);
    if (sums.gram.defined()) {
      sums.gram.add_(gram);
    } else {
      sums.gram = gram.clone();
    }
    sums.fourth_powers += layer.record->fourth_powers.item<double>();
  }
  return sums;
}

}  // namespace

FrobeniusNorms squared_frobenius_norms(torch::nn::Module& module,
                                       const std::function<at::Tensor(const at::Tensor&)>& forward,
                                       const at::Tensor& images, const at::Tensor& labels) {
  require(labels.size(0) >= 2, "the Frobenius norms need at least two examples");
  FlatParameters parameters(module);
  Recorder recorder(module, parameters);
  require(recorder.unaccounted().empty(),
          fmt::format("no Gram matrix for parameters of unknown layers: {}", fmt::join(recorder.unaccounted(), ", ")));
  LayerRequest request;
  request.squares = Squares::kExact;
  request.gram = true;
  recorder.start(request);
  recorder.begin_pass(0, labels.size(0));
  cross_entropy_losses(forward(images), labels).sum().backward();
  recorder.stop();

  const auto m = static_cast<double>(labels.size(0)), pairs = m * (m - 1);
  const PairSums sums = pair_sums(recorder);
  const double all = sums.gram.pow(2).sum().item<double>(), same = sums.gram.diagonal().pow(2).sum().item<double>();
  const double squares = recorder.squares().to(at::kDouble).pow(2).sum().item<double>();  // |sum_i g_i^2|^2
  return {all / (m * m), squares / (m * m), (all - same) / pairs, (squares - sums.fourth_powers) / pairs};
}

FrobeniusPoint frobenius_point(Model& model, const Loader& loader, const FrobeniusOptions& options) {
  require(options.batches >= 2, fmt::format("{} batches: an error needs at least 2", options.batches));
  const KeepState keep(model);
  model.train(options.training_mode);
  std::vector<double> full, diagonal, full_unbiased, diagonal_unbiased;
  for (std::int64_t b = 0; b < options.batches; ++b) {
    const auto indices = drawn_examples(loader.size(), options.examples, options.seed, b);
    const auto norms = squared_frobenius_norms(
        model, [&](const at::Tensor& x) { return model.forward(x); }, loader.plain_images(indices),
        loader.labels(indices));
    full.push_back(norms.full);
    diagonal.push_back(norms.diagonal);
    full_unbiased.push_back(norms.full_unbiased);
    diagonal_unbiased.push_back(norms.diagonal_unbiased);
  }
  FrobeniusPoint point;
  point.full = root(mean_of(full));
  point.diagonal = root(mean_of(diagonal));
  point.full_unbiased = root(mean_of(full_unbiased));
  point.diagonal_unbiased = root(mean_of(diagonal_unbiased));
  return point;
}

}  // namespace covnoise
