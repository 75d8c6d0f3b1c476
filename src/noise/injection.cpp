#include "covnoise/noise/injection.h"

#include "covnoise/core/error.h"
#include "noise/formula_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

/// What a diagnosis calls the structure.
std::string name_of(const NoiseOptions& options) {
  return options.estimator == "signs" ? options.structure + " with signs" : options.structure;
}

void check(const NoiseOptions& options, const NoiseStructure& structure) {
  require(options.small_batch >= 1, fmt::format("noise.small_batch = {} must be at least 1", options.small_batch));
  require(options.group >= 0, fmt::format("noise.group = {} must be at least 0", options.group));
  require(options.refresh >= 1, fmt::format("noise.refresh = {} must be at least 1", options.refresh));
  require(options.refresh == 1 || !structure.needs().draw(),
          fmt::format("noise.refresh = {} is not possible for {}: every step needs its own draw; use 1",
                      options.refresh, name_of(options)));
}

/// A radius and a temperature are for some placements only.
void check_strength(const NoiseOptions& options, const NoiseStructure& structure) {
  const bool in_weights = options.placement == Placement::kWeights, has_radius = options.radius != 0;
  require(options.radius >= 0, fmt::format("noise.radius = {:g} must be at least 0", options.radius));
  require(in_weights || !has_radius, fmt::format("noise.radius = {:g} is the norm of noise in the weights; set "
                                                 "noise.placement = \"weights\" or leave it out",
                                                 options.radius));
  require(
      !in_weights || !options.scale.match,
      "noise.scale = \"match\" compares temperatures, and noise with noise.placement = \"weights\" has none, because "
      "it does not diffuse; give a number or noise.radius");
  require(
      !options.scale.match || structure.is_zero() || structure.scaled_by_batch(),
      fmt::format("noise.scale = \"match\" is for noise that is scaled by the batch; {} noise has noise.sigma instead",
                  options.structure));
  require(options.clip_norm >= 0, fmt::format("noise.clip_norm = {:g} must be at least 0", options.clip_norm));
  require(!in_weights || options.clip_norm == 0,
          fmt::format("noise.clip_norm = {:g} is for noise that is added to a gradient; noise.radius is the norm of "
                      "noise with noise.placement = \"weights\"",
                      options.clip_norm));
  require(!options.scale.match || options.clip_norm == 0,
          fmt::format("noise.clip_norm = {:g} would miss the temperature of noise.scale = \"match\"; leave one of them "
                      "out",
                      options.clip_norm));
  require(!has_radius || options.scale.factor == 1,
          fmt::format("noise.scale = {:g} has no effect where noise.radius = {:g} is the norm of the noise; leave one "
                      "of them out",
                      options.scale.factor, options.radius));
  require(!has_radius || structure.scaled_by_batch() || options.sigma > 0,
          fmt::format("noise.radius = {:g} needs a direction, and noise.sigma = 0 gives none; raise noise.sigma",
                      options.radius));
}

}  // namespace

Injection::Injection(const NoiseOptions& options, bool batch_statistics)
    : Injection(options, make_structure(options, batch_statistics)) {}

Injection::Injection(const NoiseOptions& options, torch::nn::Module& module)
    : Injection(with_estimator_for(module, options)) {}

Injection::Injection(const NoiseOptions& options, std::unique_ptr<NoiseStructure> structure)
    : options_(options), structure_(std::move(structure)) {
  check(options, *structure_);
  check_strength(options, *structure_);
}

double Injection::scale(const StepContext& context) const {
  if (structure_->is_zero() || context.fraction >= options_.stop_after) return 0;
  if (!structure_->scaled_by_batch()) return options_.scale.match ? 1 : options_.scale.factor;
  if (context.batch <= options_.small_batch) return 0;
  if (options_.scale.match && context.clip_norm > 0) return 1;
  if (options_.scale.match) return std::sqrt(matched_scale_squared(options_, context));
  return options_.scale.factor * std::sqrt(formula_scale_squared(options_.small_batch, context.batch));
}

Needs Injection::needs(const StepContext& context) const {
  if (scale(context) == 0) return {};
  return kept_.empty() || context.step % options_.refresh == 0 ? structure_->needs() : Needs{};
}

GradientStatistics* Injection::kept_of(const FlatParameters* parameters) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& s) { return s.parameters == parameters; });
  return found == kept_.end() ? nullptr : &*found;
}

GradientStatistics& Injection::keep(GradientStatistics statistics) {
  if (auto* known = kept_of(statistics.parameters)) return *known = std::move(statistics);
  const auto next = std::find_if(kept_.begin(), kept_.end(), [&](const auto& other) {
    return other.parameters->first_entry() > statistics.parameters->first_entry();
  });
  return *kept_.insert(next, std::move(statistics));
}

StepNoise Injection::draw(const GradientStatistics& statistics, const StepContext& context) {
  StepNoise noise;
  noise.scale = scale(context);
  if (noise.scale == 0) {
    kept_.clear();
    return noise;
  }
  GradientStatistics* kept = kept_of(statistics.parameters);
  if (!kept || context.step % options_.refresh == 0) kept = &keep(statistics);
  kept->gradient = statistics.gradient;
  // The signs of the examples already differ between shards; whatever else a draw of examples needs is the same for
  // all.
  const std::uint32_t shard = structure_->needs().extra == ExtraBackward::kNone ? context.shard : 0;
  noise.scale *= std::sqrt(context.share);
  // Each shard has its own stream, shard 0 that of the whole batch; a slice of the parameters starts with a block.
  noise.stream = {context.seed, nth(Purpose::kNoise, shard), static_cast<std::uint32_t>(context.step),
                  static_cast<std::uint64_t>(statistics.parameters->first_element() / kWordsOfBlock)};
  noise.variance = structure_->variance(*kept);
  if (noise.variance.defined()) return noise;
  const auto sample = structure_->sample(*kept, noise.stream);
  noise.values = sample.is_same(kept->draw) ? sample.mul(noise.scale) : sample.mul_(noise.scale);
  statistics.parameters->clear_gaps(noise.values);
  return noise;
}

bool Injection::scaled_by_clipping(const StepContext& context) const {
  return options_.scale.match && context.clip_norm > 0 && structure_->scaled_by_batch() && scale(context) != 0;
}

at::Tensor Injection::clipped_scale(const StepNoise& noise, const at::Tensor& gradient,
                                    const StepContext& context) const {
  if (!noise.defined() || !scaled_by_clipping(context)) return {};
  return clipped_match_scale(options_, context, gradient.norm(), noise.tensor().norm());
}

std::pair<StepNoise, at::Tensor> Injection::clipped(const StepNoise& noise) const {
  if (!noise.defined() || !clips_noise()) return {noise, {}};
  const auto values = noise.tensor();
  const auto factor = clip_factor(values, options_.clip_norm);
  return {{values * factor.to(values.scalar_type()), {}, 1, {}}, factor};
}

double Injection::noise_temperature(const StepContext& context, double scale) const {
  if (!structure_->scaled_by_batch() || options_.placement == Placement::kWeights) return 0;
  const double squared = std::pow(scale, 2);
  const double keep = 1 - context.momentum;
  return context.lr * squared * (options_.placement == Placement::kGradient ? 1 / keep : keep);
}

std::vector<std::pair<std::string, at::Tensor>> Injection::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  if (options_.refresh == 1) return state;
  for (const auto& kept : kept_) {
    if (!kept.diagonal.defined()) continue;
    for (const auto& entry : kept.parameters->entries())
      state.emplace_back("noise.diagonal." + entry.name, kept.parameters->view(kept.diagonal, entry));
  }
  return state;
}

void Injection::load_state(const std::vector<std::pair<std::string, at::Tensor>>& state,
                           const FlatParameters& parameters) {
  GradientStatistics statistics;
  statistics.parameters = &parameters;
  for (const auto& entry : parameters.entries()) {
    const auto item = std::find_if(state.begin(), state.end(),
                                   [&](const auto& named) { return named.first == "noise.diagonal." + entry.name; });
    if (item == state.end()) continue;
    if (!statistics.diagonal.defined()) statistics.diagonal = parameters.zeros();
    parameters.view(statistics.diagonal, entry).copy_(item->second);
  }
  if (statistics.diagonal.defined()) keep(std::move(statistics));
}

}  // namespace covnoise
