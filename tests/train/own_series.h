// Examples of the caller's own, and runs on them.
#pragma once
#include "covnoise/ops/random.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/trainer.h"
#include "support/device.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::testing {

struct Series {
  at::Tensor x, y;
};

inline Series series(std::int64_t count, std::uint64_t seed) {
  auto x = at::empty({count, 3});
  fill_normal(x, {seed, Purpose::kData});
  return {x, x.pow(2).sum(1, true)};
}

inline TrainOptions own_options(const std::filesystem::path& out, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model=own",
                                       "data=own",
                                       "regime=lb-diag",
                                       "train.batch=64",
                                       "train.epochs=2",
                                       "train.lr=0.02",
                                       "train.schedule=cosine",
                                       "noise.small_batch=16",
                                       "noise.stop_after=1",
                                       "train.log_every=1",
                                       "run.device=" + device_name()};
  settings.insert(settings.end(), more.begin(), more.end());
  TrainOptions options;
  options.config = load_config(std::nullopt, settings);
  options.out = out;
  return options;
}

inline double recorded_test_loss(const std::filesystem::path& run) {
  return read_metrics(run).back().at("test_loss").get<double>();
}

}  // namespace covnoise::testing
