#include "train/loop/health.h"

#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/run_summary.h"
#include "train/loop/advice.h"

#include <fmt/format.h>

namespace covnoise {
namespace {

/// Noise that had left the gradient 0.85 or more of its learning rate ended without a jump of the loss, noise that had
/// left it 0.64 or less mostly with one (F1, LeNet and ResNet44x2; records of results/healthy, clipped together).
constexpr double kLeastHealthyRate = 0.7;

}  // namespace

std::vector<Health::Warning> Health::check(const Epoch& epoch, Progress& progress) {
  auto warnings = check_end_of_noise(epoch, progress);
  for (auto& warning : check_loss(epoch)) warnings.push_back(std::move(warning));
  for (auto& warning : check_clipping(epoch, progress)) warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<Health::Warning> Health::check_loss(const Epoch& epoch) {
  if (warned_of_loss_ || epoch.index < warmup_ || epoch.train_loss <= guessing_loss_) return {};
  warned_of_loss_ = true;
  return {{kAboutLoss, fmt::format("the training loss of epoch {}, {:.2f}, is above that of guessing, {:.2f}: {}",
                                   epoch.index + 1, epoch.train_loss, guessing_loss_, advice_for_loss(config_))}};
}

std::vector<Health::Warning> Health::check_clipping(const Epoch& epoch, const Progress& progress) {
  // The penalty's gradient is clipped as well, and is not in the norms that tell what the noise takes.
  if (config_.noise.penalty > 0) return {};
  const bool noisy = epoch.began_with_noise && epoch.ended_with_noise && config_.noise.stop_after < 1;
  if (warned_of_clipping_ || epoch.index < warmup_ || !noisy || !shares_clipping(config_)) return {};
  const double left = progress.epoch_clip_factors / progress.epoch_gradient_factors;
  if (!(left < kLeastHealthyRate)) return {};  // nor where no step was logged
  warned_of_clipping_ = true;
  return {{kAboutClipping,
           fmt::format("in epoch {} the noise, which is clipped together with the gradient, leaves it {:.2f} "
                       "of its learning rate; the rest returns at once when the noise ends: {}",
                       epoch.index + 1, left, advice_for_shared_clipping(config_))}};
}

/// Compares the epoch in which the noise ends and the first one without it with the last one that had it throughout.
std::vector<Health::Warning> Health::check_end_of_noise(const Epoch& epoch, Progress& progress) const {
  if (epoch.ended_with_noise) {
    progress.noisy_loss = epoch.train_loss;
    return {};
  }
  const double before = progress.noisy_loss;
  const bool jumped = before > 0 && epoch.train_loss > kLargestHealthyLossJump * before;
  if (jumped || !epoch.began_with_noise) progress.noisy_loss = 0;
  if (!jumped) return {};
  return {
      {kAboutNoise, fmt::format("the training loss rose from {:.2f} to {:.2f} in epoch {}, when the noise ended: {}",
                                before, epoch.train_loss, epoch.index + 1, advice_for_end_of_noise(config_))}};
}

void Health::recall(const nlohmann::ordered_json& record) {
  if (warns_about(record, kAboutLoss)) warned_of_loss_ = true;
  if (warns_about(record, kAboutClipping)) warned_of_clipping_ = true;
}

}  // namespace covnoise
