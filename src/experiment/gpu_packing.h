#pragma once
#include "covnoise/train/config.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// The document of a run (StoredRun::document) that says how many runs were trained at once with it, at most, and the
/// percentage of the GPU that it was limited to.
constexpr const char* kPacking = "packing";

/// How many runs like this one are trained in parallel: `asked`, or if that is 0, as many as suit the device.
std::int64_t side_by_side(const Config& config, std::int64_t asked);

/// Limits a process to this percentage of a GPU's multiprocessors if NVIDIA's MPS runs; without MPS it has no effect.
constexpr const char* kMpsPercentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// The value of kMpsPercentage for a run, if up to side_by_side() runs are trained in parallel: what the environment
/// already has, else one that suits the device; empty if the run may use all of it. Kernels of a small batch are short:
/// on fewer multiprocessors those of several runs overlap instead of waiting for each other.
std::string mps_percentage(const Config& config, std::int64_t asked);

/// Which of the waiting runs to start beside the running ones; none if all must wait. Small and large batches are never
/// scheduled together on a GPU: at every step the small one would wait for the kernels of the large one.
std::optional<std::size_t> next_to_start(const std::vector<const Config*>& waiting,
                                         const std::vector<const Config*>& running, std::int64_t asked);

}  // namespace covnoise
