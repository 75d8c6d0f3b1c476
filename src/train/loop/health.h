#pragma once
#include "covnoise/train/config.h"
#include "train/loop/run_progress.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace covnoise {

/// What the training losses of the epochs say about a training that is not healthy, and what to do about it.
class Health {
 public:
  struct Warning {
    std::string about;  ///< loss, noise or clipping
    std::string message;
  };
  /// An epoch that has just ended.
  struct Epoch {
    std::int64_t index;  ///< from 0
    double train_loss;
    bool began_with_noise, ended_with_noise;  ///< whether its first and last step had noise
  };

  /// `guessing_loss`: of guessing; `warmup`: in epochs.
  Health(const Config& config, double guessing_loss, double warmup)
      : config_(config), guessing_loss_(guessing_loss), warmup_(warmup) {}

  /// Once each after the warm-up: of a loss above that of guessing, and of noise that shares the gradient's clipping
  /// and takes much of its learning rate until it ends. And of a loss that rose when the noise ended. Keeps
  /// `progress.noisy_loss`.
  std::vector<Warning> check(const Epoch& epoch, Progress& progress);
  /// A record of the run's metrics from before it was resumed: what has been said is not repeated.
  void recall(const nlohmann::ordered_json& record);

 private:
  std::vector<Warning> check_loss(const Epoch& epoch);
  std::vector<Warning> check_clipping(const Epoch& epoch, const Progress& progress);
  std::vector<Warning> check_end_of_noise(const Epoch& epoch, Progress& progress) const;

  const Config& config_;
  double guessing_loss_, warmup_;
  bool warned_of_loss_ = false, warned_of_clipping_ = false;
};

}  // namespace covnoise
