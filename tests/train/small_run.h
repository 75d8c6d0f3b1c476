#pragma once
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/trainer.h"
#include "support/device.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace covnoise::testing {

/// Two epochs of two steps on 128 glyphs, on the tests' device.
inline Config small_config(const std::string& regime, const std::string& model) {
  auto config = load_config(
      std::nullopt,
      {"regime=" + regime, "model=" + model, "data=glyphs", "train.epochs=2", "data.train_limit=128",
       "data.test_limit=100", "train.ghost_batch=16", "noise.small_batch=16", "train.micro_batch=32",
       "noise.stop_after=1", "train.batch=64", "train.log_every=1", "train.lr=0.01", "train.schedule=step",
       "train.warmup=0", "train.clip_norm=0", "run.deterministic=true", "run.device=" + testing::device_name()});
  for (auto& change : config.train.batch_schedule) change.batch = 128, change.lr = 0.02;
  resolve_defaults(config);
  check_config(config);
  return config;
}

inline TrainOptions small_run(const std::string& regime, const std::string& model) {
  TrainOptions options;
  options.data = known_data_sets();
  options.config = small_config(regime, model);
  return options;
}

/// The lines with `text` that a training says which is interrupted in step `interrupted` and resumed.
inline std::vector<std::string> said_when_resumed(TrainOptions options, const std::string& text, int interrupted) {
  std::vector<std::string> said;
  options.say = [&](const std::string& line) {
    if (line.find(text) != std::string::npos) said.push_back(line);
  };
  options.stop_requested = [steps = 0, interrupted]() mutable { return ++steps == interrupted; };
  EXPECT_EQ(train(options), Outcome::kInterrupted);
  options.stop_requested = [] { return false; };
  EXPECT_EQ(train(options), Outcome::kFinished);
  return said;
}

}  // namespace covnoise::testing
