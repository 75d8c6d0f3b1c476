// What train() refuses, what it says, and how it stops.
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/diverged.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(Train, RefusesAPrecisionThatTheCpuDoesNotHave) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.config.run.device = "cpu";
  options.out = folder / "run";
  for (const std::string precision : {"bf16", "tf32"}) {
    options.config.train.precision = precision;
    EXPECT_THAT([&] { train(options); }, ThrowsMessage<Error>(HasSubstr("\"" + precision + "\" needs a GPU")));
  }
  EXPECT_FALSE(std::filesystem::exists(options.out));
}

TEST(Train, RefusesNoiseThatABatchDoesNotGet) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.config.train.batch = options.config.noise.small_batch;
  options.out = folder / "run";
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Error>(HasSubstr("adds no noise, because the batch size, 16,")));
}

/// A second start that finds another run where, at its first look, there was none.
TEST(Train, ChecksTheConfigurationAgainUnderTheLock) {
  const testing::TemporaryFolder folder;
  TrainOptions first = testing::small_run("sb", "mlp");
  first.out = folder / "run";
  TrainOptions second = first;
  second.config.seed = 1;
  second.data = [&](const std::string& name) {
    train(first);  // while the second one reads its data
    return first.data(name);
  };
  EXPECT_THAT([&] { train(second); }, ThrowsMessage<Error>(HasSubstr("seed: 0 there, 1 here")));
}

TEST(Train, SaysItsNoiseFirst) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.out = folder / "run";
  std::vector<std::string> lines;
  options.say = [&](const std::string& line) { lines.push_back(line); };
  train(options);
  EXPECT_THAT(lines.front(), HasSubstr("noise diag-fisher (exact) in the update, scale 1 for batch 16, for 100 %"));
}

TEST(Train, RefusesAWarmUpLongerThanTheTraining) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.config.train.warmup = 2;
  options.out = folder / "run";
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Error>(HasSubstr("train.warmup = 2 epochs is not shorter")));
}

TEST(Train, SaysThatAChangeOfTheBatchNeverComes) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("batch-change", "mlp");
  std::vector<std::string> warnings;
  options.say = [&](const std::string& line) {
    if (line.find("never comes") != std::string::npos) warnings.push_back(line);
  };
  options.out = folder / "two";
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_TRUE(warnings.empty());
  options.config.train.epochs = 1;
  options.out = folder / "one";
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("the batch of 128 examples in train.batch_schedule never comes: it begins "
                                    "after 1 epoch, and train.epochs = 1")));
}

/// Once, also when the run was interrupted in between.
TEST(Train, SaysThatALossIsAboveThatOfGuessing) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.config.train.epochs = 4;
  options.config.train.lr = 2;  // too high, but the ReLUs die before anything overflows
  options.config.train.momentum = 0.5;
  options.out = folder / "run";
  int warnings = 0;
  std::int64_t steps = 0;
  options.say = [&](const std::string& line) { warnings += line.rfind("warning: the training loss of epoch", 0) == 0; };
  options.stop_requested = [&] { return ++steps == 5; };  // 2 steps per epoch
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  EXPECT_EQ(warnings, 1);
  options.stop_requested = [] { return false; };
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_EQ(warnings, 1);
  std::int64_t recorded = 0;
  for (const auto& record : read_metrics(options.out)) recorded += record["kind"] == "warning" ? 1 : 0;
  EXPECT_EQ(recorded, 1);
}

TEST(Train, SaysThatALossIsAboveThatOfGuessingOnlyAfterTheWarmUp) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.config.train.epochs = 5;
  options.config.train.warmup = 3;
  options.config.train.schedule = "constant";
  options.config.train.lr = 2;
  options.config.train.momentum = 0.5;
  options.out = folder / "run";
  train(options);
  std::vector<std::int64_t> above, warned;
  for (const auto& record : read_metrics(options.out)) {
    const auto epoch = record["epoch"].get<std::int64_t>();
    if (record["kind"] == "epoch" && record["train_loss"].get<double>() > std::log(10)) above.push_back(epoch);
    if (record["kind"] == "warning") warned.push_back(epoch);
  }
  ASSERT_FALSE(above.empty());
  EXPECT_LE(above.front(), 3);  // already during the warm-up
  const auto after = std::find_if(above.begin(), above.end(), [](auto epoch) { return epoch > 3; });
  ASSERT_NE(after, above.end());
  EXPECT_THAT(warned, ElementsAre(*after));
}

/// Gradient and noise are clipped by one factor, so that the end of the noise raises the learning rate many times over.
/// Said when it happens, also by a run that was resumed in between.
TEST(Train, SaysThatTheLossRoseWhenTheNoiseEnded) {
  const testing::TemporaryFolder folder;
  const auto warnings_of = [&](double stop_after, const std::string& name) {
    TrainOptions options = testing::small_run("lb-diag", "mlp");
    options.config = load_config(
        std::nullopt, {"regime=lb-diag", "model=mlp", "data=glyphs", "train.epochs=6", "data.train_limit=512",
                       "data.test_limit=64", "train.batch=128", "train.lr=2", "train.clip_norm=0.5", "train.warmup=0",
                       "train.schedule=constant", "noise.small_batch=1", "run.device=" + testing::device_name()});
    options.config.noise.stop_after = stop_after;
    resolve_defaults(options.config);
    options.out = folder / name;
    return testing::said_when_resumed(options, "when the noise ended", 14);  // in the fourth of epochs of 4 steps
  };
  EXPECT_THAT(warnings_of(0.66, "ends"), ElementsAre(AllOf(HasSubstr("in epoch 5, when the noise ended"),
                                                           HasSubstr("clip the noise apart (noise.clip_norm=2)"))));
  EXPECT_TRUE(warnings_of(1, "lasts").empty());
  std::vector<std::string> recorded;
  for (const auto& record : read_metrics(folder / "ends"))
    if (record["kind"] == "warning") recorded.push_back(record["about"]);
  EXPECT_THAT(recorded, ::testing::Contains("noise"));
}

/// What is done already is not advised again.
TEST(Train, AdvisesMoreThanTheClippingThatIsSet) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("sb", "mlp");
  options.config.train.lr = 2;
  options.config.train.momentum = 0.5;
  std::string warning;
  options.say = [&](const std::string& line) { warning = line.rfind("warning: ", 0) == 0 ? line : warning; };
  options.out = folder / "free";
  train(options);
  EXPECT_THAT(warning, HasSubstr(": clip the gradient (train.clip_norm=1), lengthen train.warmup or lower train.lr"));
  warning.clear();
  options.config.train.clip_norm = 100;
  options.out = folder / "clipped";
  train(options);
  EXPECT_THAT(warning, HasSubstr(": lengthen train.warmup or lower train.lr, or clip the gradient more "
                                 "(train.clip_norm = 100 now)"));
}

TEST(Train, AdvisesToBoundNoiseThatRaisesItself) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.config.noise.placement = Placement::kWeights;
  options.config.noise.scale.factor = 1e20;
  options.out = folder / "weights";
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Diverged>(HasSubstr("noise.radius")));
  options.config.noise.placement = Placement::kUpdate;
  options.out = folder / "update";
  EXPECT_THAT([&] { train(options); }, ThrowsMessage<Diverged>(Not(HasSubstr("noise.radius"))));
}

/// On the CPU: within the first step, in the evaluation of the first epoch, within the third step.
TEST(Train, StopsWithinAStepAndLeavesTheLastCheckpoint) {
  if (testing::device().is_cuda()) GTEST_SKIP() << "a GPU replays a step as a whole";
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.out = folder / "calm";
  ASSERT_EQ(train(options), Outcome::kFinished);
  for (const auto& [call, kept] : std::vector<std::pair<int, std::size_t>>{{2, 0}, {5, 0}, {7, 1}}) {
    options.out = folder / std::to_string(call);
    int calls = 0;
    options.stop_now = [&, stop = call] { return ++calls == stop; };
    EXPECT_EQ(train(options), Outcome::kStoppedNow);
    EXPECT_EQ(calls, call);
    const auto list = CheckpointStore(options.out / "checkpoints").list();
    EXPECT_EQ(list.size(), kept) << call;
    options.stop_now = [] { return false; };
    EXPECT_EQ(train(options), Outcome::kFinished);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(read_file(options.out / "checkpoints/step-00000004" / file),
                read_file(folder / "calm/checkpoints/step-00000004" / file));
  }
}

}  // namespace
}  // namespace covnoise
