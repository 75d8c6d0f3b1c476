#include "experiment/gpu_packing.h"

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdlib>

namespace covnoise {
namespace {

bool on_gpu(const Config& config) { return at::Device(config.run.device).is_cuda(); }

/// Whether a run leaves most of a GPU idle.
bool small(const Config& config) { return config.train.batch < 1024; }

}  // namespace

std::int64_t side_by_side(const Config& config, std::int64_t asked) {
  if (asked > 0) return asked;
  if (!on_gpu(config)) return 1;
  return small(config) ? 4 : 2;
}

std::string mps_percentage(const Config& config, std::int64_t asked) {
  if (!on_gpu(config)) return "";
  if (const char* own = std::getenv(kMpsPercentage)) return own;
  // Of 16, 30 and 100 %, 30 was best for seven runs at once on an H200 (docs/paper.md). Two or three leave some of it
  // idle.
  return small(config) && side_by_side(config, asked) > 3 ? "30" : "";
}

std::optional<std::size_t> next_to_start(const std::vector<const Config*>& waiting,
                                         const std::vector<const Config*>& running, std::int64_t asked) {
  const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const Config* config) {
    if (static_cast<std::int64_t>(running.size()) >= side_by_side(*config, asked)) return false;
    return running.empty() || !on_gpu(*config) || small(*config) == small(*running.front());
  });
  if (found == waiting.end()) return std::nullopt;
  return static_cast<std::size_t>(found - waiting.begin());
}

}  // namespace covnoise
