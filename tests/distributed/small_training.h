#pragma once
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/checkpoint.h"
#include "support/wait_until.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
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

/// The last checkpoints of two finished trainings have the same bytes.
inline void expect_same_end(const std::filesystem::path& run, const std::filesystem::path& other) {
  const auto last = CheckpointStore(other / "checkpoints").list().back().path.filename();
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read_file(run / "checkpoints" / last / file), read_file(other / "checkpoints" / last / file)) << file;
}

}  // namespace covnoise::testing
