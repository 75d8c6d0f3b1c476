#pragma once
#include "covnoise/nn/gradient_ready_hooks.h"
#include "covnoise/train/defaults.h"
#include "support/device.h"
#include "train/loop/initial_model.h"
#include "train/loop/training_step.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace covnoise::testing {

constexpr std::int64_t kSteppedBatch = 16;
constexpr BucketOptions kFourBuckets{4, 1}, kOneBucket{1, 1};

/// Of one step an epoch.
inline Config stepped_config(const std::string& model, int steps, const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"model=" + model,      "train.batch=" + std::to_string(kSteppedBatch),
                                  "train.ghost_batch=2", "noise.small_batch=2",
                                  "train.lr=0.02",       "train.epochs=" + std::to_string(steps)};
  all.insert(all.end(), settings.begin(), settings.end());
  auto config = load_config(std::nullopt, all);
  resolve_defaults(config);
  return config;
}

inline DataSource random_images() {
  torch::manual_seed(3);
  DataSource source;
  source.name = "random";
  source.train = source.test = {torch::randint(0, 256, {kSteppedBatch, 3, 16, 16}, torch::kUInt8),
                                torch::randint(0, 10, {kSteppedBatch}, torch::kInt64)};
  source.mean.assign(3, 0.5), source.std.assign(3, 0.25);
  source.classes.assign(10, "class");
  return source;
}

/// What a process has after the steps of a training.
struct Stepped {
  at::Tensor weights;
  std::vector<StepResult> results;
  std::uint64_t bytes = 0;         // handed to the process group in the last step
  std::uint64_t bytes_before = 0;  // those before its backward pass, if that ran, was through with the first parameter
};

/// As a rank, or, without a communicator, alone. Nobody waits between the steps.
inline Stepped stepped_as(Communicator* communicator, const Config& config, const DataSource& source,
                          const BucketOptions& buckets) {
  const auto device = training_device(config);
  const DeviceStream stream(device);
  const Split split = make_split(source, config);
  const Schedule schedule(config, split.train.size());
  const auto model = initial_model(config, source, device);
  model->train();
  FlatParameters parameters(*model);
  TrainingStep step(config, *model, parameters, schedule, communicator, buckets);
  Stepped result;
  const auto bytes = [&] { return communicator ? communicator->bytes() : 0; };
  std::uint64_t before = 0;
  const GradientReadyHooks watch(*model, [&](std::size_t parameter) {
    if (parameter == 0) result.bytes_before = bytes() - before;
  });
  for (std::int64_t number = 0; number < schedule.total_steps(); ++number) {
    before = bytes();
    step.launch(number, split.train, split.train.order(number), true);
  }
  result.results = step.collect();
  result.bytes = bytes() - before;
  result.weights = parameters.values().cpu();
  return result;
}

}  // namespace covnoise::testing
