#pragma once
#include <cstdint>
#include <string>

namespace covnoise {

/// Where the noise enters a step with momentum.
enum class Placement {
  kUpdate,    ///< after the momentum buffer: Algorithm 1 of the paper as printed
  kGradient,  ///< through it, which makes it 1 / (1 - momentum) times as strong in the long run
  kWeights,   ///< in the weights at which the gradient is taken, and only there: theta <- theta - a g(theta + n)
};

/// Whose labels the statistics use: the data's (the paper's empirical Fisher matrix) or labels sampled from the model's
/// own predictions (its exact Fisher matrix).
enum class Labels { kData, kModel };

/// The scale of the noise: a factor of the formula's s = sqrt((M_L - M_S) / (M_L M_S)), or the small batch's
/// temperature.
struct NoiseScale {
  bool match = false;  ///< match the small batch's temperature (docs/noise.md)
  double factor = 1;   ///< of s; unused where `match` is set
  friend bool operator==(const NoiseScale& a, const NoiseScale& b) {
    return a.match == b.match && (a.match || a.factor == b.factor);
  }
};

/// The [noise] section of a recipe: which noise, how strong, where and when.
struct NoiseOptions {
  std::string structure = "none";  ///< covariance of the noise: one of structure_names()
  /// How diag-fisher, fisher-trace and kfac estimate a diagonal: exact, ghost, spatial or micro (not kfac); diag-fisher
  /// also signs. auto: ghost for a network with batch normalisation, otherwise exact; micro for a network with layers
  /// that cannot account for examples (with_estimator_for).
  std::string estimator = "auto";
  Labels labels = Labels::kData;   ///< of the Fisher matrix
  std::int64_t group = 0;          ///< examples per group of the ghost estimator and of the penalty; 0: small_batch
  std::int64_t small_batch = 128;  ///< M_S: batch size whose noise is imitated
  NoiseScale scale;                ///< strength
  double match_lr = 0;          ///< for scale.match: learning rate of the small batch; in a recipe 0: the model's own
  double match_momentum = 0.9;  ///< for scale.match: momentum of the small batch
  /// For scale.match: the small batch's own schedule, step, cosine or constant, and its warm-up, in epochs or below 1
  /// as a fraction of the training. Empty and negative: those of this training; in a recipe where match_lr is the
  /// model's own, those of the regime sb. Milestones and decay are those of this training.
  /// NoisyGradient::set_match_factor takes their place in a loop of your own.
  std::string match_schedule;
  double match_warmup = -1;
  Placement placement = Placement::kUpdate;  ///< where the noise enters the step
  double radius = 0;                         ///< of kWeights: norm of the noise over all parameters; 0: scale decides
  /// Largest norm of the noise, which then has a factor of its own, and train.clip_norm is of the gradient alone; 0:
  /// train.clip_norm is of their sum and gives both one factor. Not of kWeights, which have a radius.
  double clip_norm = 0;
  double stop_after = 0.25;        ///< fraction of the training after which the noise is off
  std::int64_t refresh = 1;        ///< steps between two measurements of the statistics
  double sigma = 0.1;              ///< strength of multiplicative and isotropic noise, which have no s
  double penalty = 0;              ///< lambda of the ghost penalty (noise/penalty.h); 0: none
  std::int64_t penalty_every = 1;  ///< steps between two penalties, each of so many times the weight
  double penalty_step = 0.01;      ///< eps, the length of the step of its finite difference

  std::int64_t estimator_group() const { return group > 0 ? group : small_batch; }
};

}  // namespace covnoise
