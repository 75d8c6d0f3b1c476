#include "train/config/noise_groups.h"

#include "covnoise/core/error.h"
#include "covnoise/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace covnoise {
namespace {

/// A period of the training with one batch size.
struct BatchPeriod {
  std::string key;  // that sets the batch
  std::int64_t batch;
  double begin, end;  // fractions of the training
};

std::vector<BatchPeriod> periods_of(const TrainConfig& train) {
  std::vector<BatchPeriod> periods = {{"train.batch", train.batch, 0, 1}};
  for (const auto& change : train.batch_schedule) {
    const auto epoch = static_cast<double>(epoch_of_setting(change.epoch, train.epochs));
    periods.back().end = std::min(1.0, epoch / static_cast<double>(train.epochs));
    periods.push_back({"train.batch_schedule's batch", change.batch, periods.back().end, 1});
  }
  return periods;
}

bool is_noisy(const Config& config, const BatchPeriod& period) {
  return period.begin < std::min(period.end, config.noise.stop_after) && period.batch > config.noise.small_batch;
}

/// Examples that pass at once.
struct NoisyPass {
  std::string key;  // that sets them
  std::int64_t size;
};

/// The kinds of passes with noise in a period of the training.
std::vector<NoisyPass> noisy_passes(const Config& config, const BatchPeriod& period) {
  const auto& train = config.train;
  const double end = std::min(period.end, config.noise.stop_after);
  const auto pass = [&](const std::string& key, std::int64_t size) {
    return NoisyPass{key, size > 0 ? std::min(size, period.batch) : period.batch};
  };
  std::vector<NoisyPass> passes;
  if (!is_noisy(config, period)) return passes;
  const bool sharp = train.sharp_micro_batches() && train.sharpness_after < end;
  const bool plain = !sharp || train.sharpness_after > period.begin || train.sharpness_every > 1;
  if (plain) passes.push_back(pass("train.micro_batch", train.micro_batch));
  if (sharp) passes.push_back(pass("train.sharpness_batch", train.sharpness_batch));
  return passes;
}

void check_ghost(const BatchPeriod& period, const NoisyPass& pass, std::int64_t group) {
  const auto refuse = [&](const std::string& key, std::int64_t size, const char* must) {
    throw Error(
        fmt::format("{} = {} is not {} groups of {} examples (noise.group, by default noise.small_batch), which "
                    "noise.estimator = \"ghost\" compares; change one of them",
                    key, size, must, group));
  };
  if (period.batch % group != 0 || period.batch < 2 * group) refuse(period.key, period.batch, "two or more whole");
  if (pass.size % group != 0) refuse(pass.key, pass.size, "one or more whole");
}

void check_micro(const BatchPeriod& period, const NoisyPass& pass) {
  require(period.batch % pass.size == 0 && period.batch >= 2 * pass.size,
          fmt::format("noise.estimator = \"micro\" compares micro-batches: a batch of {} examples must be two or more "
                      "times {} = {}",
                      period.batch, pass.key, pass.size));
}

}  // namespace

bool has_noisy_period(const Config& config) {
  const auto periods = periods_of(config.train);
  return std::any_of(periods.begin(), periods.end(), [&](const auto& period) { return is_noisy(config, period); });
}

void check_noise_groups(const Config& config, const NoiseStructure& structure) {
  const auto& noise = config.noise;
  const Squares squares = structure.needs().squares;
  if (!centred(squares) || (!noise.scale.match && noise.scale.factor == 0)) return;
  const bool open = config.train.micro_batch == 0;  // that of `micro` is not yet settled
  for (const auto& period : periods_of(config.train)) {
    for (const auto& pass : noisy_passes(config, period)) {
      if (squares == Squares::kGhost) check_ghost(period, pass, noise.estimator_group());
      if (squares == Squares::kMicro && !(open && pass.key == "train.micro_batch")) check_micro(period, pass);
    }
  }
}

}  // namespace covnoise
