#pragma once
#include "covnoise/train/config.h"

#include <string>

namespace covnoise {

/// What to do about a loss that is too high or not finite, as a part of a sentence. Advises nothing that is set
/// already.
std::string advice_for_loss(const Config& config);
/// The same about a loss that jumped when the noise ended.
std::string advice_for_end_of_noise(const Config& config);

/// Whether train.clip_norm clips gradient and noise by one factor.
bool shares_clipping(const Config& config);
/// What to do if that lowers the gradient's learning rate.
std::string advice_for_shared_clipping(const Config& config);

}  // namespace covnoise
