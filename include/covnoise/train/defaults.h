#pragma once
#include "covnoise/train/config.h"

namespace covnoise {

/// Settles what a recipe leaves to the model: learning rates that are 0 (the model's default for that batch size), the
/// ghost batch if the largest batch is smaller, the micro-batch, the estimator of the noise and its group, and the
/// checksum of the initial weights. Afterwards
/// config.toml says everything that was used.
void resolve_defaults(Config& config);

/// The part of it for train.sharpness: its micro-batch if the batch is smaller, and train.micro_batch, which is the
/// same.
void resolve_sharpness(Config& config);

/// The largest batch size of a training, with its batch_schedule.
std::int64_t largest_batch(const Config& config);

/// The default learning rate of a model at a batch size, momentum 0.9: default_lr * (batch / 128)^p, with p the model's
/// rate_exponent, or 0.8 if the training clips.
double default_rate(const std::string& model, std::int64_t batch, bool clipped);

}  // namespace covnoise
