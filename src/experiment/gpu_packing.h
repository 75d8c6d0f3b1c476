#pragma once
#include "covnoise/train/config.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace covnoise {

/// How many runs like this one go well side by side: `asked`, or where that is 0, what the device has room for.
std::int64_t side_by_side(const Config& config, std::int64_t asked);

/// Which of the waiting runs starts beside those that are running; none where all must wait. On a GPU a small batch
/// beside a large one would wait for its kernels at every step, so that only runs of one kind share it.
std::optional<std::size_t> next_to_start(const std::vector<const Config*>& waiting,
                                         const std::vector<const Config*>& running, std::int64_t asked);

}  // namespace covnoise
