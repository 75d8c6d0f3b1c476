#include "covnoise/noise/structure.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/recorder.h"
#include "covnoise/ops/random.h"
#include "noise/structures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace covnoise {
namespace {

struct Row {
  const char* name;
  std::unique_ptr<NoiseStructure> (*make)(const NoiseOptions& options, bool batch_statistics);
};

// Adding a structure: one file, one line here, one row in docs/noise.md.
constexpr Row kStructures[] = {
    {"none", make_no_noise},
    {"diag-fisher", make_diag_fisher},
    {"full-fisher", make_full_fisher},
    {"true-fisher", make_true_fisher},
    {"fisher-trace", make_fisher_trace},
    {"kfac", make_kfac},
    {"multiplicative", make_multiplicative},
    {"isotropic", make_isotropic},
};

}  // namespace

std::unique_ptr<NoiseStructure> make_structure(const NoiseOptions& options, bool batch_statistics) {
  for (const auto& row : kStructures) {
    if (options.structure == row.name) return row.make(options, batch_statistics);
  }
  throw Error(fmt::format("noise.structure = \"{}\" is not known; known: {}", options.structure,
                          fmt::join(structure_names(), ", ")));
}

NoiseOptions with_estimator_for(torch::nn::Module& module, NoiseOptions options) {
  if (options.estimator != "auto") return options;
  const Needs needs = make_structure(options)->needs();
  if (needs.squares == Squares::kNone) return options;
  bool batch_statistics = false;
  module.apply([&](torch::nn::Module& part) {
    batch_statistics = batch_statistics || part.as<GhostBatchNorm2dImpl>() != nullptr;
  });
  const bool accounted = needs.kronecker || needs.labels == Labels::kModel || unaccounted_parameters(module).empty();
  const bool exact = needs.labels == Labels::kModel || !batch_statistics;
  options.estimator = !accounted ? "micro" : exact ? "exact" : "ghost";
  return options;
}

std::vector<std::string> structure_names() {
  std::vector<std::string> names;
  for (const auto& row : kStructures) names.emplace_back(row.name);
  return names;
}

at::Tensor DiagonalStructure::sample(const GradientStatistics& statistics, const RandomStream& stream) const {
  const auto variances = variance(statistics);
  auto noise = at::empty_like(variances);
  fill_normal_of_variance(noise, variances, stream);
  return noise;
}

at::Tensor equal_variance(const GradientStatistics& statistics, const at::Tensor& value) {
  auto variances = at::empty_like(statistics.gradient);
  variances.copy_(value.expand_as(variances));
  statistics.parameters->clear_gaps(variances);
  return variances;
}

Squares squares_estimator(const NoiseOptions& options, bool batch_statistics) {
  const std::string& name = options.estimator;
  if (name == "auto") return batch_statistics && options.labels == Labels::kData ? Squares::kGhost : Squares::kExact;
  if (name == "exact") return Squares::kExact;
  if (name == "spatial") return Squares::kSpatial;
  if (name == "ghost" || name == "micro") {
    require(options.labels == Labels::kData,
            fmt::format("noise.estimator = \"{}\" uses the data's labels; with noise.labels = \"model\" use \"exact\"",
                        name));
    return name == "ghost" ? Squares::kGhost : Squares::kMicro;
  }
  throw Error(
      fmt::format("noise.estimator = \"{}\" is not known here; known: auto, exact, ghost, spatial, micro (and signs, "
                  "for diag-fisher)",
                  name));
}

Needs squares_needs(const NoiseOptions& options, bool batch_statistics) {
  Needs needs;
  needs.squares = squares_estimator(options, batch_statistics);
  needs.labels = options.labels;
  return needs;
}

}  // namespace covnoise
