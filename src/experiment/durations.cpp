#include "experiment/durations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace covnoise {
namespace {

/// The keys that do not change the work of an epoch.
const std::set<std::string> kFree = {"seed",           "regime",           "train.epochs",     "train.lr",
                                     "train.momentum", "train.nesterov",   "train.decay",      "train.weight_decay",
                                     "train.warmup",   "train.schedule",   "train.milestones", "train.label_smoothing",
                                     "noise.scale",    "noise.match_lr",   "noise.sigma",      "noise.match_momentum",
                                     "run.threads",    "train.eval_train", "train.clip_norm",  "data.holdout"};

std::string work_of(const Config& config) {
  std::string text;
  for (const auto& [key, value] : config_values(config)) {
    if (kFree.count(key) == 0) text += fmt::format("{}={}\n", key, value);
  }
  return text;
}

std::string size_of(const Config& config) {
  std::string batches = fmt::to_string(config.train.batch);
  for (const auto& change : config.train.batch_schedule) batches += fmt::format(" {}:{}", change.epoch, change.batch);
  return fmt::format("{}|{}|{}|{}|{}|{}", config.model, config.data.name, config.data.train_limit, batches,
                     config.run.device, config.train.precision);
}

}  // namespace

void Durations::add(const Config& config, double seconds, std::size_t side_by_side) {
  const double of_epoch = seconds / static_cast<double>(config.train.epochs);
  for (auto* known : {&same_work_[work_of(config)], &similar_[size_of(config)]}) {
    double& slowest = (*known)[std::max<std::size_t>(1, side_by_side)];
    slowest = std::max(slowest, of_epoch);
  }
}

std::optional<double> Durations::left(const Config& config, std::int64_t done, std::size_t side_by_side) const {
  auto found = same_work_.find(work_of(config));
  if (found == same_work_.end()) {
    found = similar_.find(size_of(config));
    if (found == similar_.end()) return std::nullopt;
  }
  const auto& known = found->second;
  const auto as_many = known.lower_bound(side_by_side);
  const auto& [recorded, of_epoch] = as_many == known.end() ? *known.rbegin() : *as_many;
  const double more = std::max(1.0, static_cast<double>(side_by_side) / static_cast<double>(recorded));
  return more * of_epoch * static_cast<double>(config.train.epochs - done);
}

}  // namespace covnoise
