// A training step on a GPU: milliseconds (median of rounds of replayed steps) and peak memory, and both divided by
// those of the first regime. One JSON object per line.
//   build/bench_gpu_step [model,...] [precision] [batch] [regime,...]     e.g. resnet44 bf16 4096 lb,ghost,exact
// A regime is one of covnoise's or of kKinds.
#include "covnoise/core/error.h"
#include "covnoise/ops/device.h"
#include "covnoise/train/defaults.h"
#include "support/numbers.h"
#include "support/random_source.h"
#include "train/loop/initial_model.h"
#include "train/loop/training_run.h"

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace covnoise {
namespace {

constexpr int kRounds = 7, kLeastSteps = 10;
constexpr double kRoundMilliseconds = 50;  // at least: shorter rounds measure fluctuations of the GPU clock

/// Random images of the model's input shape.
DataSource source_for(const std::string& model, std::int64_t examples) {
  const bool grey = model == "mlp" || model == "f1" || model == "lenet";
  auto source = bench::random_source(examples, grey ? 1 : 3, grey ? 28 : 32);
  source.augment = !grey;
  return source;
}

/// What is measured beside the regimes themselves. Regimes with large batches clip gradient and noise together; `sb`
/// does not clip by itself, but does in recipes/healthy ("clipped").
const std::map<std::string, std::vector<std::string>> kKinds = {
    {"clipped", {"regime=sb", "train.clip_norm=1"}},
    {"unclipped", {"regime=lb", "train.clip_norm=0"}},
    {"ghost", {"regime=lb-diag", "noise.estimator=ghost"}},
    {"exact", {"regime=lb-diag", "noise.estimator=exact"}},
    {"spatial", {"regime=lb-diag", "noise.estimator=spatial"}},
    {"ghost-unclipped", {"regime=lb-diag", "noise.estimator=ghost", "train.clip_norm=0"}},
    {"apart", {"regime=lb-diag", "noise.estimator=ghost", "noise.clip_norm=4"}},
    {"weights", {"regime=lb-diag", "noise.placement=weights", "noise.radius=1e-3"}},
    {"sharpness", {"regime=lb", "train.sharpness=0.1", "train.sharpness_batch=512"}},
    {"momentum", {"regime=lb", "train.sharpness=1", "train.sharpness_along=momentum"}},
    {"penalty", {"regime=lb", "noise.penalty=0.05", "noise.penalty_step=0.1"}}};

Config config_of(const std::string& model, const std::string& precision, std::int64_t batch, const std::string& kind) {
  std::vector<std::string> set = {"model=" + model,
                                  "train.batch=" + std::to_string(batch),
                                  "train.precision=" + precision,
                                  "run.device=cuda",
                                  "train.lr=1e-4",
                                  "noise.stop_after=1",
                                  "train.epochs=1000000"};
  const auto found = kKinds.find(kind);
  const auto& more = found == kKinds.end() ? std::vector<std::string>{"regime=" + kind} : found->second;
  set.insert(set.end(), more.begin(), more.end());
  Config config = load_config(std::nullopt, set);
  resolve_defaults(config);
  return config;
}

struct Measured {
  double milliseconds = 0, gigabytes = 0;
};

Measured measure(const Config& config, const DataSource& source) {
  const auto device = training_device(config);
  const Split split = make_split(source, config);
  reset_peak_device_bytes(device);
  const Schedule schedule(config, split.train.size());
  const auto model = initial_model(config, source, device);
  model->train();
  FlatParameters parameters(*model);
  TrainingStep step(config, *model, parameters, schedule);
  const auto order = split.train.order(0);
  std::int64_t number = 0;
  const auto milliseconds_of = [&](int steps) {  // per step
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step.launch(number++, split.train, order.narrow(0, 0, config.train.batch), false);
    step.collect();
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / steps;
  };
  milliseconds_of(kLeastSteps);  // captures
  const int steps = std::max(kLeastSteps, static_cast<int>(kRoundMilliseconds / milliseconds_of(kLeastSteps)));
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) times.push_back(milliseconds_of(steps));
  return {bench::median(times), static_cast<double>(peak_device_bytes(device)) * 1e-9};
}

void run(int count, char** arguments) {
  const auto argument = [&](int i, const char* otherwise) { return std::string(i < count ? arguments[i] : otherwise); };
  const std::string precision = argument(2, "bf16");
  const std::int64_t batch = std::stoll(argument(3, "4096"));
  const DeviceStream stream(device_of("cuda"));  // one for all: libraries keep a workspace per stream
  for (const auto& model : bench::words(argument(1, "mlp,lenet,alexnet,vgg16,resnet44"))) {
    const auto source = source_for(model, batch);
    Measured first;
    for (const auto& kind : bench::words(argument(4, "lb,ghost,exact"))) {
      const auto measured = measure(config_of(model, precision, batch, kind), source);
      if (first.milliseconds == 0) first = measured;
      const nlohmann::ordered_json row = {
          {"bench", "step"},
          {"model", model},
          {"precision", precision},
          {"batch", batch},
          {"regime", kind},
          {"ms", bench::to_thousandths(measured.milliseconds)},
          {"over_first", bench::to_thousandths(measured.milliseconds / first.milliseconds)},
          {"peak_gb", bench::to_thousandths(measured.gigabytes)},
          {"peak_over_first", bench::to_thousandths(measured.gigabytes / first.gigabytes)}};
      std::printf("%s\n", row.dump().c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace covnoise

int main(int count, char** arguments) {
  try {
    covnoise::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu_step: %s\n", error.what());
    return 1;
  }
}
