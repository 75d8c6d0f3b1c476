#pragma once
#include "covnoise/noise/structure.h"
#include "covnoise/train/config.h"

namespace covnoise {

/// Refuses batches and micro-batches that the groups of the estimator `ghost`, or the micro-batches that `micro`
/// compares, do not fit, wherever the training has noise. Nothing is checked where the estimator is still `auto`.
/// `structure` is that of the training, which may be the caller's own.
void check_noise_groups(const Config& config, const NoiseStructure& structure);

/// Whether a batch larger than noise.small_batch begins before noise.stop_after.
bool has_noisy_period(const Config& config);

}  // namespace covnoise
