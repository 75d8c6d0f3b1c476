#pragma once
#include "train/loop/training_step.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace covnoise {

/// How far a run is: everything except tensors that a checkpoint keeps.
struct Progress {
  std::int64_t step = 0;  ///< steps done
  double epoch_loss = 0;  ///< sums over the steps of the current epoch, weighted by examples
  std::int64_t epoch_correct = 0, epoch_examples = 0;
  double epoch_clip_factors = 0, epoch_noise_clip_factors = 0;  ///< sums over the logged steps of the current epoch
  double epoch_gradient_factors = 0;  ///< likewise of the factors that the gradient would have had without noise
  std::int64_t epoch_logged = 0;      ///< how many they are
  double noisy_loss = 0;  ///< of the last epoch whose last step had noise, until an epoch without is compared with it
  double best_accuracy = -1;  ///< at a scheduled checkpoint: validation, or test if nothing is held out
  std::optional<std::int64_t> best_step;
  double trace_average = 0, square_average = 0;  ///< smoothed numerator and denominator of the noise scale

  /// Adds the results of a step; `step` is not changed.
  void add(const StepResult& result);
  /// What only logged steps have; `clip_norm` is that of the gradient, 0: none.
  void add_logged(const StepResult& result, double clip_norm);
  void start_epoch();
  /// The critical batch size of McCandlish et al. (2018), Tr S / |G|^2, from averages over steps: one step's ratio is
  /// too noisy, and |g|^2 - Tr S / M can be negative.
  std::optional<double> noise_scale() const;

  nlohmann::json to_json() const;
  static Progress from_json(const nlohmann::json& json);
};

}  // namespace covnoise
