#include "train/loop/health.h"

#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/run_summary.h"
#include "train/loop/advice.h"

#include <fmt/format.h>

namespace covnoise {

std::vector<Health::Warning> Health::check(const Epoch& epoch, Progress& progress) {
  auto warnings = check_end_of_noise(epoch, progress);
  for (auto& warning : check_loss(epoch)) warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<Health::Warning> Health::check_loss(const Epoch& epoch) {
  if (warned_of_loss_ || epoch.index < warmup_ || epoch.train_loss <= guessing_loss_) return {};
  warned_of_loss_ = true;
  return {{kAboutLoss, fmt::format("the training loss of epoch {}, {:.2f}, is above that of guessing, {:.2f}: {}",
                                   epoch.index + 1, epoch.train_loss, guessing_loss_, advice_for_loss(config_))}};
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
  return {{"noise", fmt::format("the training loss rose from {:.2f} to {:.2f} in epoch {}, when the noise ended: {}",
                                before, epoch.train_loss, epoch.index + 1, advice_for_end_of_noise(config_))}};
}

void Health::recall(const nlohmann::ordered_json& record) {
  if (warns_of_loss(record)) warned_of_loss_ = true;
}

}  // namespace covnoise
