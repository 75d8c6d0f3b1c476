#pragma once
#include "covnoise/train/config.h"

namespace covnoise {

/// Settles what a recipe leaves to the model: rates that are 0 (the model's default rate at that batch), the ghost
/// batch where the batch is smaller, the micro-batch, the estimator of the noise. Afterwards config.toml says
/// everything that was used.
void resolve_defaults(Config& config);

/// The default rate of a model at a batch size, momentum 0.9: default_lr * (batch / 128)^rate_exponent.
double default_rate(const std::string& model, std::int64_t batch);

}  // namespace covnoise
