#include "covnoise/analysis/fisher.h"

#include "covnoise/core/error.h"
#include "covnoise/noise/gradient_pass.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr std::int64_t kSlice = 512;

std::int64_t examples_to_use(const Loader& loader, const FisherOptions& options) {
  std::int64_t count = options.examples > 0 ? options.examples : loader.size();
  if (count > loader.size()) {
    throw Error(fmt::format("--examples {} exceeds the {} available examples", count, loader.size()));
  }
  if (options.training_mode && options.ghost_batch > 0) count -= count % options.ghost_batch;
  if (count == 0) throw Error(fmt::format("too few examples for one ghost batch of {}", options.ghost_batch));
  return count;
}

std::vector<NamedTensor> named(const FlatParameters& parameters, const at::Tensor& buffer) {
  std::vector<NamedTensor> result;
  for (const auto& entry : parameters.entries())
    result.emplace_back(entry.name, parameters.view(buffer, entry).clone());
  return result;
}

}  // namespace

FisherDiagonal fisher_diagonal(Model& model, const Loader& loader, const FisherOptions& options) {
  const std::int64_t count = examples_to_use(loader, options);
  const std::int64_t unit = options.training_mode && options.ghost_batch > 0 ? options.ghost_batch : 1;
  const std::int64_t slice = std::max<std::int64_t>(1, kSlice / unit) * unit;
  const bool training = model.is_training();
  model.train(options.training_mode);
  FlatParameters parameters(model);
  GradientPass pass(model, [&](const at::Tensor& x) { return model.forward(x); }, parameters, {});
  Needs needs;
  needs.squares = Squares::kExact;
  pass.begin({needs});
  FisherDiagonal result;
  for (std::int64_t first = 0; first < count; first += slice) {
    const auto indices = torch::arange(first, std::min(count, first + slice));
    pass.add(loader.plain_images(indices), loader.labels(indices));
  }
  const auto statistics = pass.finish();
  model.train(training);
  result.examples = count;
  result.loss = pass.loss_sum().item<double>() / static_cast<double>(count);
  result.trace = statistics.diagonal.sum(at::kDouble).item<double>();
  result.gradient = named(parameters, statistics.gradient);
  result.diagonal = named(parameters, statistics.diagonal);
  return result;
}

}  // namespace covnoise
