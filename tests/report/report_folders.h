#pragma once
#include "covnoise/core/internal/file.h"
#include "covnoise/train/config.h"
#include "covnoise/train/internal/run_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::testing {

/// Makes a run's folder by hand: `epochs` epochs of 10 steps with two step records each. Accuracies rise to `accuracy`.
inline void make_run(const std::filesystem::path& folder, const Config& config, std::int64_t epochs, double accuracy,
                     const std::string& more_lines = "") {
  create_folders(folder);
  write_file_synced(RunFolder{folder}.config(), to_toml(config));
  std::string lines;
  for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
    for (const std::int64_t step : {10 * epoch - 5, 10 * epoch}) {
      lines += fmt::format(R"({{"kind":"step","step":{},"epoch":{},"train_loss":{},"lr":0.1,"noise_norm":{}}})"
                           "\n",
                           step, epoch, 2.0 / static_cast<double>(step), 0.5 / static_cast<double>(epoch));
    }
    const double now = accuracy - 0.1 * static_cast<double>(config.train.epochs - epoch);
    lines += fmt::format(
        R"({{"kind":"epoch","step":{},"epoch":{},"train_loss":{},"train_accuracy":{},"test_loss":{},"test_accuracy":{},)"
        R"("images_per_s":1000}})"
        "\n",
        10 * epoch, epoch, 1.0 / static_cast<double>(epoch), now + 0.02, 1.5 / static_cast<double>(epoch), now);
  }
  write_file_synced(RunFolder{folder}.metrics(), lines + more_lines);
}

inline Config run_config(const std::string& regime, std::uint64_t seed, std::int64_t epochs = 3) {
  Config config;
  config.regime = regime;
  config.seed = seed;
  config.train.epochs = epochs;
  config.train.batch = regime == "sb" ? 128 : 1024;
  return config;
}

}  // namespace covnoise::testing
