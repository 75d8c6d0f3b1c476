#include "covnoise/analysis/hessian_study.h"

#include "covnoise/analysis/hessian.h"
#include "covnoise/core/error.h"
#include "covnoise/core/memory.h"
#include "covnoise/nn/loss.h"
#include "covnoise/train/internal/split.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr std::int64_t kHessianSlice = 250, kDefaultExamples = 2000;

std::vector<HessianProduct::Slice> slices_of(const Loader& loader, std::int64_t examples) {
  require(examples <= loader.size(),
          fmt::format("--examples {} exceeds the {} available examples", examples, loader.size()));
  const std::int64_t count = examples > 0    ? examples
                             : examples == 0 ? loader.size()
                                             : std::min(kDefaultExamples, loader.size());
  std::vector<HessianProduct::Slice> slices;
  for (std::int64_t first = 0; first < count; first += kHessianSlice) {
    const auto indices = torch::arange(first, std::min(count, first + kHessianSlice));
    slices.push_back({loader.plain_images(indices), loader.labels(indices)});
  }
  return slices;
}

at::Tensor all_logits(Model& model, const std::vector<HessianProduct::Slice>& slices) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> logits;
  for (const auto& slice : slices) logits.push_back(model.forward(slice.images));
  return torch::cat(logits);
}

at::Tensor all_labels(const std::vector<HessianProduct::Slice>& slices) {
  std::vector<at::Tensor> labels;
  for (const auto& slice : slices) labels.push_back(slice.labels);
  return torch::cat(labels);
}

/// Folding is told which layers belong together by their order alone: see whether it was right.
void check_predictions(const at::Tensor& before, const at::Tensor& after) {
  const double difference = (before - after).abs().max().item<double>(), size = before.abs().max().item<double>();
  require(difference <= 1e-4 * (1 + size),
          fmt::format("folding the batch normalisation changed the logits by {:.2g}: its layers are not registered in "
                      "the order in which they run",
                      difference));
}

}  // namespace

HessianResult hessian_of(TrainedModel& trained, const HessianOptions& options,
                         const std::function<void(const std::string&)>& say) {
  Model& model = *trained.model;
  model.eval();
  const Split split = make_split(trained.source, trained.config);
  const auto test = slices_of(split.test, 0);
  const auto before = all_logits(model, test);
  const auto parameters = fold_batch_norm(model);
  check_predictions(before, all_logits(model, test));

  HessianResult result;
  result.model = trained.config.model;
  result.data = trained.config.data.name;
  result.regime = trained.config.regime;
  result.seed = trained.config.seed;
  result.step = trained.step;
  result.temperature = calibrated_temperature(before, all_labels(test));
  HessianProduct product(
      parameters, slices_of(options.split == "test" ? split.test : split.train, options.examples),
      [&](const HessianProduct::Slice& slice) {
        return cross_entropy_losses(model.forward(slice.images) / result.temperature, slice.labels).sum();
      },
      options.memory > 0 ? static_cast<std::int64_t>(options.memory * (1 << 30)) : available_bytes() / 2);
  result.examples = product.examples();
  result.parameters = product.dimension();
  const SymmetricOperator hessian{[&](const at::Tensor& v) { return product(v); }, product.dimension(),
                                  product.options()};
  LanczosOptions lanczos = options.lanczos;
  lanczos.after = [&](std::int64_t iteration, double value) {
    say(fmt::format("iteration {}  largest eigenvalue {:.6g}", iteration, value));
  };
  result.eigenvalues = largest_eigenvalues(hessian, lanczos);
  if (options.density > 0) {
    say("spectral density");
    result.spectrum = spectral_density(hessian, options.density, options.density_steps, options.lanczos.seed);
  }
  return result;
}

}  // namespace covnoise
