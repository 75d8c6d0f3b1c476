#include "covnoise/train/schedule.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "covnoise/core/error.h"

namespace covnoise {
namespace {

constexpr double kPi = 3.14159265358979323846;

double in_epochs(double setting, std::int64_t epochs) {
  return setting < 1 ? setting * static_cast<double>(epochs) : setting;
}

}  // namespace

std::int64_t epoch_of_setting(double setting, std::int64_t epochs) {
  // The small number mends products such as 0.29 * 100 = 28.999999999999996.
  const auto epoch = std::floor(std::min(in_epochs(setting, epochs), 1e9) + 1e-9);
  return static_cast<std::int64_t>(setting > 0 ? std::max(epoch, 1.0) : epoch);
}

std::vector<std::string> settings_relative_to_epochs(const Config& config, bool noisy) {
  const auto fraction = [](double setting) { return setting > 0 && setting < 1; };
  const auto& train = config.train;
  const auto& noise = config.noise;
  const bool matched = noisy && noise.scale.match;
  std::set<std::string> keys;
  if (train.schedule == "cosine") keys.insert("train.schedule");
  if (matched && noise.match_schedule == "cosine") keys.insert("noise.match_schedule");
  const bool steps = train.schedule == "step" || (matched && noise.match_schedule == "step");
  if (steps && std::any_of(train.milestones.begin(), train.milestones.end(), fraction)) keys.insert("train.milestones");
  if (matched && fraction(noise.match_warmup)) keys.insert("noise.match_warmup");
  if (fraction(train.warmup)) keys.insert("train.warmup");
  for (const auto& change : train.batch_schedule)
    if (fraction(change.epoch)) keys.insert("train.batch_schedule");
  if (train.sharpness > 0 && fraction(train.sharpness_after)) keys.insert("train.sharpness_after");
  if (fraction(noise.stop_after) && noisy) keys.insert("noise.stop_after");
  std::vector<std::string> settings;
  for (const auto& [key, value] : config_values(config))
    if (keys.count(key) > 0) settings.push_back(fmt::format("{} = {}", key, value));
  return settings;
}

Schedule::Schedule(const Config& config, std::int64_t train_examples) {
  const auto& train = config.train;
  Epoch now{train.batch, 0, 0, train.lr};
  auto change = train.batch_schedule.begin();
  for (std::int64_t epoch = 0; epoch < train.epochs; ++epoch) {
    for (; change != train.batch_schedule.end() && epoch_of_setting(change->epoch, train.epochs) <= epoch; ++change) {
      now.batch = change->batch;
      now.base_lr = change->lr;
    }
    TORCH_CHECK(now.base_lr > 0, "the schedule needs a rate above 0 at epoch ", epoch);
    if (now.batch > train_examples) {
      throw Error(
          fmt::format("a batch of {} examples at epoch {} is larger than the training set of {}; lower "
                      "train.batch or train.batch_schedule",
                      now.batch, epoch, train_examples));
    }
    now.steps = train_examples / now.batch;
    now.first_step = total_steps_;
    total_steps_ += now.steps;
    epochs_.push_back(now);
  }
  set_decay(train.schedule);
  warmup_ = in_epochs(train.warmup, train.epochs);
  decay_ = train.decay;
  for (const double milestone : train.milestones) milestones_.push_back(epoch_of_setting(milestone, train.epochs));
}

void Schedule::set_decay(const std::string& name) {
  decay_kind_ = name == "step" ? Decay::kStep : name == "cosine" ? Decay::kCosine : Decay::kConstant;
}

Schedule Schedule::of_matched_batch(const NoiseOptions& noise) const {
  Schedule small = *this;
  if (!noise.match_schedule.empty()) small.set_decay(noise.match_schedule);
  if (noise.match_warmup >= 0) small.warmup_ = in_epochs(noise.match_warmup, epochs());
  return small;
}

std::int64_t Schedule::epoch_of(std::int64_t step) const {
  TORCH_CHECK(0 <= step && step < total_steps_, "step ", step, " is not one of ", total_steps_);
  const auto after = std::upper_bound(epochs_.begin(), epochs_.end(), step,
                                      [](std::int64_t s, const Epoch& epoch) { return s < epoch.first_step; });
  return after - epochs_.begin() - 1;
}

double Schedule::position(std::int64_t step) const {
  const std::int64_t epoch = epoch_of(step);
  return static_cast<double>(epoch) +
         static_cast<double>(step - first_step(epoch)) / static_cast<double>(steps_per_epoch(epoch));
}

double Schedule::fraction(std::int64_t step) const { return position(step) / static_cast<double>(epochs()); }

/// Warm-up: (epochs at the end of the step) / warmup, so that the first step moves and the last one of the warm-up has
/// the full learning rate. Cosine: (1 + cos(pi t)) / 2, t = 0 at the end of the warm-up and 1 at the end of the
/// training.
double Schedule::factor(std::int64_t step) const {
  const std::int64_t epoch = epoch_of(step);
  const double start = position(step), end = start + 1.0 / static_cast<double>(steps_per_epoch(epoch));
  double decay = 1;
  if (decay_kind_ == Decay::kStep)
    decay = std::pow(decay_, std::count_if(milestones_.begin(), milestones_.end(), [&](auto m) { return m <= epoch; }));
  if (decay_kind_ == Decay::kCosine && start > warmup_)
    decay = 0.5 * (1 + std::cos(kPi * (start - warmup_) / (static_cast<double>(epochs()) - warmup_)));
  return decay * (warmup_ > 0 ? std::min(1.0, end / warmup_) : 1.0);
}

double Schedule::lr(std::int64_t step) const { return base_lr(epoch_of(step)) * factor(step); }

}  // namespace covnoise
