#include "experiment/gpu_packing.h"

#include <c10/core/Device.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace covnoise {
namespace {

constexpr const char* kNoLimit = "100";

/// Whether a run leaves most of a GPU idle.
bool small(const Config& config) { return config.train.batch < 1024; }

}  // namespace

Packing::Packing(const nlohmann::ordered_json& kept) : side_by_side_(kept.value("side_by_side", std::size_t{0})) {
  if (side_by_side_ == 0) return;
  std::istringstream list(kept.value("mps_percentage", kNoLimit));
  for (std::string one; std::getline(list >> std::ws, one, ',');) percentages_.push_back(one);
}

void Packing::add_process() {
  if (std::find(percentages_.begin(), percentages_.end(), kNoLimit) != percentages_.end()) return;
  percentages_.push_back(kNoLimit);
  changed_ = true;
}

bool Packing::add_side_by_side(std::size_t now) {
  const bool write = changed_ || now > side_by_side_;
  side_by_side_ = std::max(side_by_side_, now);
  changed_ = false;
  return write;
}

bool Packing::alone() const { return side_by_side_ == 1 && unlimited(); }

bool Packing::unlimited() const { return percentages_ == std::vector<std::string>{kNoLimit}; }

nlohmann::ordered_json Packing::to_json() const {
  nlohmann::ordered_json json = {{"side_by_side", side_by_side_}};
  if (!unlimited()) json["mps_percentage"] = fmt::format("{}", fmt::join(percentages_, ", "));
  return json;
}

bool on_gpu(const Config& config) { return at::Device(config.run.device).is_cuda(); }

std::int64_t side_by_side(const Config& config, std::int64_t asked) {
  if (asked > 0) return asked;
  if (!on_gpu(config)) return 1;
  return small(config) ? 4 : 2;
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
