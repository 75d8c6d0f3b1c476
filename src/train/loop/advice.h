#pragma once
#include "covnoise/train/config.h"

#include <string>

namespace covnoise {

/// What to do about a loss that is too high or not finite, as a part of a sentence. Advises nothing that is set
/// already.
std::string advice_for_loss(const Config& config);
/// The same about a loss that jumped when the noise ended.
std::string advice_for_end_of_noise(const Config& config);

}  // namespace covnoise
