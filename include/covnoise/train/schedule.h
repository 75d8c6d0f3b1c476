#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "covnoise/train/config.h"

namespace covnoise {

/// The batch size and learning rate of every step. Epochs and steps count from 0. The last, incomplete batch of an
/// epoch is dropped. The learning rate is base(epoch) * factor(step): linear warm-up, then step decay, half a cosine to
/// 0, or constant.
class Schedule {
 public:
  /// `config` with resolved learning rates (none is 0); `train_examples` after data.train_limit and data.holdout. A
  /// larger batch is an Error.
  Schedule(const Config& config, std::int64_t train_examples);

  /// The same epochs and batches with the warm-up and the decay of the small batch whose temperature is matched
  /// (noise.match_schedule, noise.match_warmup).
  Schedule of_matched_batch(const NoiseOptions& noise) const;

  std::int64_t epochs() const { return static_cast<std::int64_t>(epochs_.size()); }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t batch(std::int64_t epoch) const { return epochs_.at(epoch).batch; }
  double base_lr(std::int64_t epoch) const { return epochs_.at(epoch).base_lr; }
  std::int64_t steps_per_epoch(std::int64_t epoch) const { return epochs_.at(epoch).steps; }
  std::int64_t first_step(std::int64_t epoch) const { return epochs_.at(epoch).first_step; }
  std::int64_t epoch_of(std::int64_t step) const;

  double lr(std::int64_t step) const;
  double factor(std::int64_t step) const;    ///< lr divided by the epoch's base rate: the same for all batch sizes
  double warmup() const { return warmup_; }  ///< in epochs
  double fraction(std::int64_t step) const;  ///< of the training, in epochs, before this step: [0, 1)

 private:
  struct Epoch {
    std::int64_t batch, steps, first_step;
    double base_lr;
  };
  void set_decay(const std::string& name);
  double position(std::int64_t step) const;  ///< in epochs, at the start of the step

  std::vector<Epoch> epochs_;
  std::int64_t total_steps_ = 0;
  enum class Decay { kConstant, kStep, kCosine } decay_kind_ = Decay::kStep;
  double warmup_ = 0, decay_ = 1;
  std::vector<std::int64_t> milestones_;  ///< epochs
};

/// Converts a time in a recipe to an epoch: a value of at least 1 is one; below 1 it is a fraction of the training, in
/// whole epochs and, unless it is 0, not before epoch 1.
std::int64_t epoch_of_setting(double setting, std::int64_t epochs);

/// The settings by which the first epochs of a training depend on how many follow: fractions of the training, and the
/// cosine schedule. Each as 'train.schedule = "cosine"'. Without any, a training can be continued with more epochs.
/// `noisy`: whether its structure, which need not be the one that noise.structure names, is not zero.
std::vector<std::string> settings_relative_to_epochs(const Config& config, bool noisy);

}  // namespace covnoise
