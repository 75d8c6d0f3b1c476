#pragma once
#include "covnoise/noise/options.h"
#include "covnoise/noise/structure.h"
#include "covnoise/ops/sgd_update.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// What the policy knows about a step.
struct StepContext {
  std::uint64_t seed = 0;   ///< of the run
  std::int64_t step = 0;    ///< from 0
  double fraction = 0;      ///< of the training before this step
  std::int64_t batch = 0;   ///< M_L
  double lr = 0;            ///< learning rate of this step
  double momentum = 0;      ///< of the optimizer
  double clip_norm = 0;     ///< of the optimizer; 0: no clipping
  double match_factor = 1;  ///< of match_lr: the schedule of the small batch at this moment, warm-up included
  std::uint32_t shard = 0;  ///< which shard of the batch the statistics belong to
  double share = 1;         ///< fraction of the batch in this shard
};

/// When, where and how strongly the noise of a structure is added: scale, placement, stop and refresh.
class Injection {
 public:
  /// Around the structure that the options name. `batch_statistics` as for make_structure.
  explicit Injection(const NoiseOptions& options, bool batch_statistics = false);
  /// Around the structure that the options name, for this network: `auto` is the estimator of with_estimator_for.
  Injection(const NoiseOptions& options, torch::nn::Module& module);
  /// Around the caller's own structure; `options.structure` and `options.estimator` are not used.
  Injection(const NoiseOptions& options, std::unique_ptr<NoiseStructure> structure);

  /// Factor of the structure's sample at this step: s, 1 for structures with their own sigma, or 0 without noise. A
  /// matched temperature with clipping has another factor, clipped_scale: it is 1 here.
  double scale(const StepContext& context) const;
  /// What the backward passes of this step must compute: the structure's needs, or nothing between two refreshes.
  Needs needs(const StepContext& context) const;
  /// scale * C^(1/2) xi; undefined without noise. Keeps the statistics of a step that had needs. The statistics of a
  /// shard of the batch give this shard's noise (if drawn_by_shards), and the shards' noises add up to the whole's. The
  /// statistics of a slice of the parameters (FlatParameters::slice, always the same slices) give the slice's noise.
  StepNoise draw(const GradientStatistics& statistics, const StepContext& context);

  /// The factor for what `draw` gave, a scalar on its device, where the temperature is matched and the optimizer clips
  /// (clipped_match_scale); otherwise undefined. `noise` and `gradient` are those of the whole batch.
  at::Tensor clipped_scale(const StepNoise& noise, const at::Tensor& gradient, const StepContext& context) const;
  /// Whether clipped_scale needs the noise before it is added to the gradient.
  bool scaled_by_clipping(const StepContext& context) const;

  /// The noise of the whole batch, at most noise.clip_norm long, and the factor that makes it so, min(1, clip_norm /
  /// |n|), a scalar on its device. Without noise.clip_norm or without noise: as it is, and undefined.
  std::pair<StepNoise, at::Tensor> clipped(const StepNoise& noise) const;
  /// Whether noise.clip_norm clips the noise apart from the gradient.
  bool clips_noise() const { return options_.clip_norm > 0; }

  /// Whether each shard of a batch draws its own share of the noise.
  bool drawn_by_shards() const { return structure_->adds_up_over_shards(); }
  bool needs_only_trace() const { return structure_->needs_only_trace(); }  ///< NoiseStructure::needs_only_trace
  Needs structure_needs() const { return structure_->needs(); }  ///< in a step with noise that refreshes the statistics
  /// How the diagonal is estimated, for the user: exact, ghost, ...; `auto` where nothing is estimated.
  const std::string& estimator() const { return options_.estimator; }
  Placement placement() const { return options_.placement; }
  /// a_eff s^2 in the gradient, a (1 - momentum) s^2 in the update, to compare with SGD's own a_eff / M; of the scale
  /// at this step, or of a given one. 0 in the weights, where the noise does not diffuse.
  double noise_temperature(const StepContext& context) const { return noise_temperature(context, scale(context)); }
  double noise_temperature(const StepContext& context, double scale) const;

  /// What a resumed run needs: the statistics kept between refreshes, by name. Empty if every step refreshes.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  /// Restores what `state` returned.
  void load_state(const std::vector<std::pair<std::string, at::Tensor>>& state, const FlatParameters& parameters);

 private:
  GradientStatistics* kept_of(const FlatParameters* parameters);
  GradientStatistics& keep(GradientStatistics statistics);

  NoiseOptions options_;
  std::unique_ptr<NoiseStructure> structure_;
  std::vector<GradientStatistics> kept_;  // of the whole network, or of its slices in their order
};

/// s^2 of the matched temperature in the gradient, (a_S,eff / a_eff) / M_S - 1 / M_L, at least 0 and at most the
/// formula's s^2 = (M_L - M_S) / (M_L M_S); in the update the same without the upper limit, divided by (1 -
/// momentum)^2.
double matched_scale_squared(const NoiseOptions& options, const StepContext& context);

/// The matched s where gradient and noise are clipped to c = context.clip_norm: their factor f = min(1, c / |g + s n|)
/// lowers the temperature, and s decides f,
///
///   f a_eff (1/M_L + q s^2) = a_S,eff / M_S,   |g + s n|^2 = |g|^2 + s^2 |n|^2
///
/// with q = 1 in the gradient, (1 - momentum)^2 in the update, and the limits of matched_scale_squared. The inner
/// product of g and n, whose mean is 0, is left out. From the norms of the gradient g and of the sample n at scale 1,
/// scalars on their device; a double there.
at::Tensor clipped_match_scale(const NoiseOptions& options, const StepContext& context, const at::Tensor& gradient_norm,
                               const at::Tensor& sample_norm);

}  // namespace covnoise
