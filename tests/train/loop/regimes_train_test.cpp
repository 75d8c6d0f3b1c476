// Every regime trains, in micro-batches, and a resumed run has the same weights.
#include "covnoise/core/internal/file.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/regimes.h"
#include "covnoise/train/trainer.h"
#include "support/device.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <gtest/gtest.h>

#include <cmath>

namespace covnoise {
namespace {

std::string final_weights(const std::filesystem::path& run) {
  const auto store = CheckpointStore(run / "checkpoints");
  return read_file(store.list().back().path / "model.safetensors");
}

class RegimesTrain : public ::testing::TestWithParam<std::string> {};

TEST_P(RegimesTrain, AndResumesWithTheSameWeights) {
  const testing::TemporaryFolder folder;
  for (const std::string model : {"mlp", "resnet8"}) {
    TrainOptions options = testing::small_run(GetParam(), model);
    options.out = folder / (model + "-calm");
    ASSERT_EQ(train(options), Outcome::kFinished);
    for (const auto& record : read_metrics(options.out)) {
      if (record["kind"] != "epoch") continue;
      EXPECT_TRUE(std::isfinite(record["train_loss"].get<double>()));
    }
    const auto calm = final_weights(options.out);
    options.out = folder / (model + "-interrupted");
    int steps = 0;
    options.stop_requested = [&] { return ++steps == 2; };
    ASSERT_EQ(train(options), Outcome::kInterrupted);
    options.stop_requested = [] { return false; };
    ASSERT_EQ(train(options), Outcome::kFinished);
    EXPECT_EQ(final_weights(options.out), calm) << model;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, RegimesTrain, ::testing::ValuesIn(regime_names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

/// Dropout has no state of its own: the steps after a resume drop what they would have dropped.
TEST(Train, ResumesDropoutWithTheSameWeights) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "c1");
  options.config.train.epochs = 1;
  options.out = folder / "calm";
  ASSERT_EQ(train(options), Outcome::kFinished);
  options.out = folder / "interrupted";
  options.stop_requested = [] { return true; };
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  options.stop_requested = [] { return false; };
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_EQ(final_weights(folder / "interrupted"), final_weights(folder / "calm"));
}

TEST(Train, NoiseIsInTheMetrics) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "resnet8");
  options.out = folder / "run";
  train(options);
  const auto first = read_metrics(options.out).front();
  EXPECT_GT(first["noise_norm"].get<double>(), 0);
  EXPECT_GT(first["fisher_trace"].get<double>(), 0);
  EXPECT_NEAR(first["temperature"].get<double>(), 0.01 / 0.1 / 64, 1e-12);
  EXPECT_NEAR(first["noise_temperature"].get<double>(), 0.01 * 0.1 * (1.0 / 16 - 1.0 / 64), 1e-12);
}

/// The critical batch size is one of the data's gradients, so squares of the model's labels do not give it.
TEST(Train, NoiseScaleInTheMetricsIsOfTheDataAlone) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.config.noise.estimator = "exact";
  for (const auto labels : {Labels::kData, Labels::kModel}) {
    options.config.noise.labels = labels;
    options.out = folder / (labels == Labels::kData ? "data" : "model");
    train(options);
    int scales = 0, traces = 0;
    for (const auto& record : read_metrics(options.out)) {
      scales += record.contains("noise_scale"), traces += record.contains("fisher_trace");
    }
    EXPECT_EQ(traces, 4);
    EXPECT_EQ(scales > 0, labels == Labels::kData);  // not in every step: the estimate of |G|^2 may be negative
  }
}

TEST(Train, HeldOutExamplesAreEvaluatedAndNotTrainedOn) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.config.data.holdout = 64;
  options.config.train.eval_train = "last";
  options.out = folder / "run";
  train(options);
  const auto records = read_metrics(options.out);
  EXPECT_EQ(records.back()["step"].get<std::int64_t>(), 2);  // two epochs of one batch of the 64 that are left
  EXPECT_TRUE(records.back().contains("val_accuracy"));
  EXPECT_TRUE(records.back().contains("train_eval_accuracy"));
}

/// Evaluations cost time and change nothing else: the last one is the same, however many came before it.
TEST(Train, EvaluatesWhenItIsAskedTo) {
  const testing::TemporaryFolder folder;
  const auto records_of = [&](std::int64_t every, const std::string& on_train) {
    TrainOptions options = testing::small_run("sb", "mlp");
    options.config.train.epochs = 3;
    options.config.train.eval_every = every;
    options.config.train.eval_train = on_train;
    options.out = folder / (std::to_string(every) + on_train);
    train(options);
    std::vector<nlohmann::ordered_json> epochs;
    for (const auto& record : read_metrics(options.out)) {
      if (record.at("kind") == "epoch") epochs.push_back(record);
    }
    return epochs;
  };
  const auto every = records_of(1, "every"), second = records_of(2, "last"), last = records_of(0, "never");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(every[i].count("train_eval_loss"), 1u);
    EXPECT_EQ(second[i].count("train_eval_loss"), i == 2 ? 1u : 0u);
    EXPECT_EQ(last[i].count("train_eval_loss"), 0u);
    EXPECT_EQ(second[i].count("test_accuracy"), i >= 1 ? 1u : 0u) << i;
    EXPECT_EQ(last[i].count("test_accuracy"), i == 2 ? 1u : 0u) << i;
  }
  for (const auto& run : {second, last}) EXPECT_EQ(run[2]["test_loss"], every[2]["test_loss"]);
}

TEST(Train, MicroBatchesDoNotChangeTheGradientNorm) {
  const testing::TemporaryFolder folder;
  std::vector<double> norms;
  for (const std::int64_t micro : {16, 32, 64}) {
    TrainOptions options = testing::small_run("lb", "resnet8");
    options.config.train.micro_batch = micro;
    options.out = folder / std::to_string(micro);
    train(options);
    norms.push_back(read_metrics(options.out).front()["grad_norm"].get<double>());
  }
  EXPECT_NEAR(norms[1], norms[0], 1e-6 * norms[0]);
  EXPECT_NEAR(norms[2], norms[0], 1e-6 * norms[0]);
}

}  // namespace
}  // namespace covnoise
