#include "train/loop/weight_average.h"

#include "covnoise/core/internal/file.h"
#include "covnoise/nn/internal/other_weights.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "support/small_networks.h"
#include "support/temporary_folder.h"
#include "train/loop/example_source.h"
#include "train/own_series.h"
#include "train/small_run.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/linear.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace covnoise {
namespace {

TEST(WeightAverage, IsItsFormula) {
  const auto network = testing::make_small_network("mlp", at::kDouble);
  FlatParameters parameters(*network);
  WeightAverage average(parameters, 0.4);
  auto expected = parameters.values().detach().clone();
  const torch::NoGradGuard no_grad;
  for (int t = 1; t <= 20; ++t) {
    parameters.values().add_(0.1 * t);
    average.add(t);
    const double d = std::min(0.4, t / (t + 9.0));
    expected = d * expected + (1 - d) * parameters.values();
  }
  EXPECT_TRUE(average.values().allclose(expected, 1e-12, 1e-12));
  const auto trained = parameters.values().clone();
  {
    const OtherWeights averaged(parameters, average.values());
    EXPECT_TRUE(parameters.values().equal(average.values()));
    EXPECT_TRUE(averaged.own().equal(trained));
  }
  EXPECT_TRUE(parameters.values().equal(trained));
}

std::vector<NamedTensor> last_model(const std::filesystem::path& run) {
  return CheckpointStore::load(CheckpointStore(run / "checkpoints").list().back().path).checkpoint.model;
}

/// The training is that without an average; the saved network is another one; a resumed run has the same bytes.
TEST(WeightAverage, IsSavedAndResumedAndLeavesTheTrainingAlone) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.out = folder / "plain";
  train(options);
  options.config.train.ema = 0.9;
  options.out = folder / "averaged";
  train(options);
  const auto plain = read_metrics(folder / "plain"), averaged = read_metrics(folder / "averaged");
  EXPECT_EQ(plain.back()["train_loss"], averaged.back()["train_loss"]);
  EXPECT_NE(plain.back()["test_loss"], averaged.back()["test_loss"]);
  const auto weights = last_model(folder / "plain"), network = last_model(folder / "averaged");
  EXPECT_FALSE(weights[0].second.equal(network[0].second));
  options.out = folder / "interrupted";
  int asked = 0;
  options.stop_requested = [&] { return ++asked == 2; };
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  options.stop_requested = [] { return false; };
  ASSERT_EQ(train(options), Outcome::kFinished);
  const auto resumed = last_model(folder / "interrupted");
  for (std::size_t i = 0; i < network.size(); ++i) EXPECT_TRUE(resumed[i].second.equal(network[i].second));
}

constexpr std::int64_t kExamples = 256, kGhostBatch = 64;

/// Not those that the passes at the trained weights left: the moments of the last epoch's ghost batches at the averaged
/// weights, later ones with larger weights m (1 - m)^(n-1-j) that add up to 1.
TEST(WeightAverage, HasItsOwnRunningStatistics) {
  const testing::TemporaryFolder folder;
  const auto data = testing::series(kExamples, 0);
  auto options = testing::own_options(
      folder / "run", {"train.ema=0.9", "train.batch=256", "train.micro_batch=128", "noise.structure=none"});
  Trainer trainer(options, testing::normalised_task(kGhostBatch));
  ASSERT_EQ(trainer.run(), Outcome::kFinished);
  std::map<std::string, at::Tensor> saved;
  for (const auto& [name, tensor] : last_model(folder / "run")) saved[name] = tensor;
  const auto order =
      TensorSource({data.x, data.y}, options.config.seed, at::kCPU).order(options.config.train.epochs - 1);
  auto mean = torch::zeros({8}), variance = torch::zeros({8});
  double weights = 0;
  for (std::int64_t first = 0; first < kExamples; first += kGhostBatch) {
    const auto x = data.x.index_select(0, order.narrow(0, first, kGhostBatch));
    const auto features = torch::nn::functional::linear(x, saved.at("in.weight"), saved.at("in.bias"));
    const double weight = 0.1 * std::pow(0.9, static_cast<double>((kExamples - first) / kGhostBatch - 1));
    mean += weight * features.mean(0);
    variance += weight * features.var(0);
    weights += weight;
  }
  EXPECT_TRUE(saved.at("norm.running_mean").allclose(mean / weights, 1e-4, 1e-5));
  EXPECT_TRUE(saved.at("norm.running_var").allclose(variance / weights, 1e-4, 1e-5));
}

/// For an evaluation, a checkpoint, a snapshot and the network that is left after the training.
TEST(WeightAverage, MeasuresStatisticsOnceAfterAStep) {
  const testing::TemporaryFolder folder;
  int passes = 0;
  auto task = testing::normalised_task(kGhostBatch);
  task.loss = [&passes, loss = task.loss](torch::nn::Module& module, const GradientPass::Examples& examples) {
    const bool measures =
        !module.is_training() && dynamic_cast<testing::NormalisedNetwork&>(module).norm->is_training();
    passes += measures ? 1 : 0;
    return loss(module, examples);
  };
  Trainer trainer(testing::own_options(folder / "run", {"train.ema=0.9", "train.batch=128", "train.epochs=2",
                                                        "noise.structure=none", "train.snapshot_every=2"}),
                  task);
  ASSERT_EQ(trainer.run(), Outcome::kFinished);
  EXPECT_EQ(passes, 2 * (1 + 2));  // before the first step and after each epoch, by both batches of an epoch
  for (const auto& [name, tensor] : last_model(folder / "run")) {
    if (name.find("running") == std::string::npos) continue;
    EXPECT_TRUE(tensor.equal(trainer.module().named_buffers()[name].cpu())) << name;
  }
}

/// Targets that say little teach little in a few steps.
TEST(LabelSmoothing, IsTrainedWith) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb", "mlp");
  std::vector<nlohmann::ordered_json> last;
  for (const double smoothing : {0.0, 0.9}) {
    options.config.train.label_smoothing = smoothing;
    options.config.train.epochs = 6;
    options.out = folder / std::to_string(smoothing);
    train(options);
    last.push_back(read_metrics(options.out).back());
  }
  EXPECT_NE(last[0]["train_loss"], last[1]["train_loss"]);
  EXPECT_LT(last[0]["test_loss"].get<double>(), last[1]["test_loss"].get<double>());
}

}  // namespace
}  // namespace covnoise
