#pragma once
#include "covnoise/train/config.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// The document of a run (StoredRun::document) with its Packing.
constexpr const char* kPacking = "packing";

/// How many runs were trained at once with a run, at most, and the percentages of the GPU that it was limited to, in
/// their order. New processes have the whole GPU; records of November 2026 have others.
class Packing {
 public:
  /// What is known of a run so far; an empty object of a new one.
  explicit Packing(const nlohmann::ordered_json& kept);
  void add_process();                                         ///< begins a process of the run
  bool add_side_by_side(std::size_t now);                     ///< whether there is something to write
  std::size_t side_by_side() const { return side_by_side_; }  ///< 0: not recorded
  bool alone() const;                                         ///< whether it had the whole device to itself
  nlohmann::ordered_json to_json() const;

 private:
  bool unlimited() const;
  std::size_t side_by_side_;
  std::vector<std::string> percentages_;
  bool changed_ = false;
};

bool on_gpu(const Config& config);

/// How many runs like this one are trained in parallel: `asked`, or if that is 0, as many as suit the device.
std::int64_t side_by_side(const Config& config, std::int64_t asked);

/// Which of the waiting runs to start beside the running ones; none if all must wait. Small and large batches are never
/// scheduled together on a GPU: at every step the small one would wait for the kernels of the large one.
std::optional<std::size_t> next_to_start(const std::vector<const Config*>& waiting,
                                         const std::vector<const Config*>& running, std::int64_t asked);

}  // namespace covnoise
