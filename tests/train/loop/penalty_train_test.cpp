// The ghost penalty in a training: part of the gradient, resumed bit for bit, on every device.
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"
#include "train/stepped.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

/// Weights after some steps of plain SGD in groups of 2 examples.
at::Tensor weights_after(int steps, const std::string& model, Settings settings) {
  settings.insert(settings.begin(), {"train.momentum=0", "train.weight_decay=0"});
  const auto config = testing::stepped_config(model, steps, settings);
  return testing::stepped_as(nullptr, config, testing::random_images(), {}).weights.to(at::kDouble);
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

TEST(PenaltyTraining, ClipsThePenaltyWithTheGradient) {
  const Settings both = {"train.precision=fp64", "noise.penalty=0.5"};
  const auto step_of = [&](const std::string& setting) {
    auto settings = both, still = both;
    settings.push_back(setting);
    still.insert(still.end(), {"train.lr=1e-12", setting});
    return ((weights_after(1, "mlp", still) - weights_after(1, "mlp", settings)) / 0.02).clone();
  };
  const auto plain = step_of("noise.penalty=0"), free = step_of("train.clip_norm=0"),
             cut = step_of("train.clip_norm=0.1");
  EXPECT_GT(relative(free, plain), 0.1);
  EXPECT_NEAR(cut.norm().item<double>(), 0.1, 1e-8);
  EXPECT_LT(relative(cut / cut.norm(), free / free.norm()), 1e-8);
}

TEST(PenaltyTraining, DoesNotDependOnTheMicroBatches) {
  for (const std::string model : {"mlp", "resnet8"}) {
    const Settings settings = {"train.precision=fp64", "noise.penalty=0.1", "noise.structure=full-fisher",
                               "noise.stop_after=1"};
    auto small = settings;
    small.push_back("train.micro_batch=4");
    EXPECT_LT(relative(weights_after(1, model, small), weights_after(1, model, settings)), 1e-10) << model;
  }
}

/// On a GPU the passes of either kind run eagerly, are captured and are replayed; the CPU in double says what they
/// give. A ReLU that rounding turns on or off moves more than rounding itself; other signs would move everything.
TEST(PenaltyTraining, GivesTheSameOnEveryDevice) {
  for (const std::string model : {"mlp", "resnet8"}) {
    const Settings settings = {"noise.penalty=0.1",   "noise.penalty_every=2", "noise.penalty_step=0.1",
                               "train.ghost_batch=8", "noise.group=8",         "train.clip_norm=1"};
    auto here = settings, reference = settings;
    here.insert(here.end(), {"train.precision=fp32", "run.deterministic=true", "run.device=" + testing::device_name()});
    reference.push_back("train.precision=fp64");
    const auto expected = weights_after(6, model, reference), actual = weights_after(6, model, here);
    reference.push_back("noise.penalty=0");
    const auto without = weights_after(6, model, reference);
    EXPECT_LT((actual - expected).norm().item<double>(), 0.2 * (expected - without).norm().item<double>()) << model;
  }
}

std::vector<NamedTensor> last_tensors(const std::filesystem::path& run) {
  return CheckpointStore::load(CheckpointStore(run / "checkpoints").list().back().path).checkpoint.model;
}

/// After one step: only the pass at the weights themselves counts.
TEST(PenaltyTraining, UpdatesRunningStatisticsOnce) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb", "resnet8");
  options.config.train.batch = 128;
  options.config.train.epochs = 1;
  std::vector<std::vector<NamedTensor>> models;
  for (const double lambda : {0.0, 0.1}) {
    options.config.noise.penalty = lambda;
    options.out = folder / std::to_string(lambda);
    train(options);
    models.push_back(last_tensors(options.out));
  }
  int statistics = 0;
  for (std::size_t i = 0; i < models[0].size(); ++i) {
    const bool running = models[0][i].first.find("running_") != std::string::npos;
    EXPECT_EQ(models[0][i].second.equal(models[1][i].second), running) << models[0][i].first;
    statistics += running ? 1 : 0;
  }
  EXPECT_GT(statistics, 0);
}

/// With everything else that a step can have. Every second step has a penalty: steps 1 and 3 of the four.
TEST(PenaltyTraining, IsResumedBitForBitAndRecorded) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "resnet8");
  options.config.noise.penalty = 0.1;
  options.config.noise.penalty_every = 2;
  options.config.train.clip_norm = 1;
  options.config.train.ema = 0.9;
  std::vector<std::string> lines;
  options.say = [&](const std::string& line) { lines.push_back(line); };
  options.out = folder / "calm";
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_THAT(lines.front(), HasSubstr("; penalty 0.1 on groups of 16 of batches above 16, every 2 steps"));
  for (const auto& record : read_metrics(options.out)) {
    if (record["kind"] != "step") continue;
    const bool penalised = record["step"].get<std::int64_t>() % 2 == 1;
    EXPECT_EQ(record.contains("penalty"), penalised);
    if (!penalised) continue;
    EXPECT_GT(record["penalty"].get<double>(), 0);
    EXPECT_GT(record["penalty_norm"].get<double>(), 0);
  }
  for (const int stop : {1, 3}) {
    options.out = folder / std::to_string(stop);
    int asked = 0;
    options.stop_requested = [&] { return ++asked == stop; };
    ASSERT_EQ(train(options), Outcome::kInterrupted);
    options.stop_requested = [] { return false; };
    ASSERT_EQ(train(options), Outcome::kFinished);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(read_file(options.out / "checkpoints/step-00000004" / file),
                read_file(folder / "calm/checkpoints/step-00000004" / file));
  }
}

TEST(PenaltyTraining, IsRefusedWhereItHasNoWholeGroups) {
  const auto refusal = [](const Settings& settings) {
    Settings all = {"train.batch=256", "noise.penalty=0.1"};
    all.insert(all.end(), settings.begin(), settings.end());
    try {
      load_config(std::nullopt, all);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refusal({}), "no error");
  EXPECT_THAT(refusal({"noise.group=96"}), HasSubstr("a batch of 256 examples is not a multiple of 96"));
  EXPECT_THAT(refusal({"noise.small_batch=512"}),
              HasSubstr("noise.penalty = 0.1 has no effect: no batch is larger than noise.small_batch = 512"));
  EXPECT_THAT(refusal({"train.ghost_batch=64", "train.batch_schedule=[[2, 320, 0.1]]"}),
              HasSubstr("a batch of 320 examples is not a multiple of 128"));
  for (const std::string precision : {"bf16", "tf32"}) {
    const auto coarse = "train.precision=" + precision;
    EXPECT_THAT(refusal({coarse}), HasSubstr("noise.penalty_step = 0.01 is lost in the rounding of " + precision));
    EXPECT_EQ(refusal({coarse, "noise.penalty_step=0.1"}), "no error");
  }
  EXPECT_THAT(refusal({"noise.penalty=-1"}), HasSubstr("noise.penalty = -1.0: must be at least 0"));
  EXPECT_THAT(refusal({"noise.penalty_every=0"}), HasSubstr("noise.penalty_every = 0: must be at least 1"));
  EXPECT_THAT(refusal({"noise.penalty_step=0"}), HasSubstr("noise.penalty_step = 0.0: must be at least 1e-12"));
}

}  // namespace
}  // namespace covnoise
