#pragma once
#include "covnoise/noise/structure.h"
#include "covnoise/ops/sgd_update.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// Where the noise enters a step with momentum.
enum class Placement {
  kUpdate,    ///< past the momentum buffer: Algorithm 1 as printed
  kGradient,  ///< through it, which makes it 1 / (1 - momentum) times as strong in the long run
};

/// When, how strongly and where noise of any structure is added.
struct InjectionOptions {
  std::string structure = "none";
  StructureOptions structure_options;
  std::int64_t small_batch = 128;  ///< M_S, whose noise the large batch lacks
  double scale = 1;                ///< factor of the formula's s
  bool match = false;              ///< instead: the temperature of the small batch (docs/noise.md)
  double match_lr = 0.1;           ///< the small batch's rate and momentum, for `match`
  double match_momentum = 0.9;
  Placement placement = Placement::kUpdate;
  double stop_after = 0.25;  ///< fraction of the training after which the noise is off
  std::int64_t refresh = 1;  ///< steps between two refreshes of the statistics
};

/// What the policy knows of a step.
struct StepContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  double fraction = 0;  ///< of the training that lies before this step
  std::int64_t batch = 0;
  double lr = 0;
  double momentum = 0;
  double decay = 1;  ///< what the schedule has multiplied the rate by, warm-up left out: the small batch's is the same
  std::uint32_t part = 0;  ///< which part of the batch the statistics are of, where they are of a part
  double share = 1;        ///< of the batch that this part is
};

/// The policy around a structure: scale, placement, stop and refresh, the same for all of them.
class Injection {
 public:
  explicit Injection(const InjectionOptions& options);
  /// The same around a structure of the caller's own; options.structure is then only its name.
  Injection(const InjectionOptions& options, std::unique_ptr<NoiseStructure> structure);

  /// Factor of the structure's sample at this step: s, sigma's 1, or 0 where there is no noise.
  double scale(const StepContext& context) const;
  /// What the backward passes of this step must give: the structure's needs, or nothing between two refreshes.
  Needs needs(const StepContext& context) const;
  /// scale * C^(1/2) xi; undefined where there is no noise. Takes over the statistics of a step that had needs. Those
  /// of a part of the batch give a part of the noise (where drawn_by_parts): the sum over parts is the whole's. Those
  /// of a part of the parameters (FlatParameters::part, always the same ones) give the noise of these parameters.
  StepNoise draw(const GradientStatistics& statistics, const StepContext& context);

  bool drawn_by_parts() const { return structure_->adds_up_over_parts(); }
  Needs structure_needs() const { return structure_->needs(); }  ///< of a step that has noise and refreshes
  Placement placement() const { return options_.placement; }
  /// a_eff s^2 in the gradient, a (1 - momentum) s^2 in the update: to be compared with a_eff / M.
  double noise_temperature(const StepContext& context) const;

  /// What a resumed run needs: the statistics kept between refreshes, by name. Nothing where every step refreshes.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  void load_state(const std::vector<std::pair<std::string, at::Tensor>>& state, const FlatParameters& parameters);

 private:
  GradientStatistics* kept_of(const FlatParameters* parameters);
  GradientStatistics& keep(GradientStatistics statistics);

  InjectionOptions options_;
  std::unique_ptr<NoiseStructure> structure_;
  std::vector<GradientStatistics> kept_;  // of the whole network, or of its parts in their order
};

/// s^2 of the matched temperature in the gradient, (a_S,eff / a_eff) / M_S - 1 / M_L, at least 0 and at most the
/// formula's s^2 = (M_L - M_S) / (M_L M_S); in the update the same without the upper limit, over (1 - momentum)^2.
double matched_scale_squared(const InjectionOptions& options, const StepContext& context);

}  // namespace covnoise
