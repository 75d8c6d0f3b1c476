#include "covnoise/train/defaults.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace covnoise {
namespace {

// 16 times the learning rate at 4096, the ratio that searches with clipping found in five of nine networks
// (docs/models.md).
constexpr double kClippedExponent = 0.8;

/// A short decimal: a rate that a person might have written.
double rounded(double rate) {
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 2);
  return std::round(rate / unit) / std::round(1 / unit);
}

/// The small batch is that of the regime sb, which has the defaults of every key but the batch size.
void resolve_matched_batch(Config& config) {
  auto& noise = config.noise;
  noise.match_lr = default_rate(config.model, noise.small_batch, /*clipped=*/false);
  if (!noise.scale.match) return;
  const TrainConfig sb;
  if (noise.match_schedule.empty()) noise.match_schedule = sb.schedule;
  if (noise.match_warmup < 0) noise.match_warmup = sb.warmup;
}

}  // namespace

std::int64_t largest_batch(const Config& config) {
  std::int64_t largest = config.train.batch;
  for (const auto& change : config.train.batch_schedule) largest = std::max(largest, change.batch);
  return largest;
}

double default_rate(const std::string& model, std::int64_t batch, bool clipped) {
  const auto info = model_info(model);
  const double exponent = clipped ? kClippedExponent : info.rate_exponent;
  return rounded(info.default_lr * std::pow(static_cast<double>(batch) / 128, exponent));
}

void resolve_sharpness(Config& config) {
  auto& train = config.train;
  if (!train.sharp_micro_batches()) return;
  train.sharpness_batch = std::min(train.sharpness_batch, largest_batch(config));
  if (train.micro_batch == 0 && train.always_sharp()) train.micro_batch = train.sharpness_batch;
}

void resolve_defaults(Config& config) {
  auto& train = config.train;
  require(train.optimizer == "sgd" || train.lr > 0,
          fmt::format("train.lr must be set for train.optimizer = \"{}\": the models' defaults are for sgd",
                      train.optimizer));
  const bool clipped = train.clip_norm > 0;
  if (train.lr == 0) train.lr = default_rate(config.model, train.batch, clipped);
  for (auto& change : train.batch_schedule) {
    if (change.lr == 0) change.lr = default_rate(config.model, change.batch, clipped);
  }
  if (train.ghost_batch > 0) train.ghost_batch = std::min(train.ghost_batch, largest_batch(config));
  resolve_sharpness(config);
  auto& noise = config.noise;
  if (noise.group == 0) noise.group = noise.small_batch;
  const Squares squares = make_structure(noise, model_info(config.model).batch_statistics)->needs().squares;
  if (noise.estimator == "auto" && squares != Squares::kNone)
    noise.estimator = squares == Squares::kGhost ? "ghost" : "exact";
  if (train.micro_batch == 0 && config.noise.estimator == "micro") {  // a group of the estimator, in ghost batches
    const std::int64_t unit = std::max<std::int64_t>(1, train.ghost_batch), group = config.noise.estimator_group();
    train.micro_batch = (group + unit - 1) / unit * unit;
  }
  if (train.micro_batch == 0) {
    const std::int64_t group = squares == Squares::kGhost ? noise.group : 1;
    const std::int64_t unit = train.ghost_batch > 0 ? std::lcm(train.ghost_batch, group) : largest_batch(config);
    const bool whole = config.run.device != "cpu";  // a GPU's memory holds it, and its kernels want all of it
    train.micro_batch = whole ? largest_batch(config)
                              : std::min(largest_batch(config),
                                         std::max<std::int64_t>(1, model_info(config.model).micro_batch / unit) * unit);
  }
  if (!train.init.empty() && train.init_sha256.empty()) train.init_sha256 = sha256_hex_of_file(train.init);
  if (noise.match_lr == 0) resolve_matched_batch(config);
}

}  // namespace covnoise
