#pragma once
#include "covnoise/train/internal/checkpoint.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace covnoise::testing {

using Words = std::vector<std::string>;

/// Arguments of a training of two steps per epoch, with a checkpoint after each epoch.
inline Words training(const std::filesystem::path& out, int epochs, int timeout = 60) {
  return {"train",
          "--model=mlp",
          "--data=glyphs",
          "--regime=lb-diag",
          "--epochs=" + std::to_string(epochs),
          "--threads=1",
          "--set=train.batch=32",
          "--set=data.train_limit=64",
          "--set=data.test_limit=50",
          "--set=noise.small_batch=4",
          "--set=noise.stop_after=1",
          "--timeout=" + std::to_string(timeout),
          "--out=" + out.string()};
}

inline std::int64_t newest_step(const std::filesystem::path& run) {
  const auto list = CheckpointStore(run / "checkpoints").list();
  return list.empty() ? 0 : list.back().step;
}

inline bool wait_until(const std::function<bool()>& done, std::chrono::seconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace covnoise::testing
