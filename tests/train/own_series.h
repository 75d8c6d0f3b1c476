// Examples of the caller's own, and runs on them.
#pragma once
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/linear.h"
#include "covnoise/ops/random.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/trainer.h"
#include "support/device.h"

#include <ATen/ATen.h>
#include <torch/types.h>

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

/// With a normalisation of features, whose ghost batch is its own.
struct NormalisedNetwork : torch::nn::Module {
  explicit NormalisedNetwork(std::int64_t ghost_batch)
      : norm(register_module("norm", GhostBatchNorm1d(torch::nn::BatchNormOptions(8), ghost_batch))) {}
  Linear in{register_module("in", Linear(3, 8))};
  GhostBatchNorm1d norm;
  Linear out{register_module("out", Linear(8, 1))};
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(norm(in(x)))); }
};

/// The regression of a series by a `Network(ghost_batch)`.
template <class Network = NormalisedNetwork>
Task normalised_task(std::int64_t ghost_batch) {
  return make_task<Series>(
      [ghost_batch] { return std::make_shared<Network>(ghost_batch); },
      [](Network& network, const Series& batch) { return mean_squared_error(network.forward(batch.x), batch.y); },
      series(256, 0), series(64, 1));
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
