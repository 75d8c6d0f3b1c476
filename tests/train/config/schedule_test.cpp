#include "covnoise/train/schedule.h"

#include "covnoise/noise/injection.h"
#include "covnoise/noise/structure.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "covnoise/core/error.h"

namespace covnoise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Config config_of(std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"train.lr=1", "train.ghost_batch=0"});
  return load_config({}, settings);
}

std::vector<double> rates(const Schedule& schedule) {
  std::vector<double> result;
  for (std::int64_t step = 0; step < schedule.total_steps(); ++step) result.push_back(schedule.lr(step));
  return result;
}

void expect_rates(const Schedule& schedule, const std::vector<double>& expected) {
  EXPECT_THAT(rates(schedule), ::testing::Pointwise(::testing::DoubleNear(1e-15), expected));
}

TEST(Schedule, CountsWholeBatches) {
  const Schedule schedule(config_of({"train.batch=32", "train.epochs=3"}), 100);
  EXPECT_EQ(schedule.steps_per_epoch(0), 3);
  EXPECT_EQ(schedule.total_steps(), 9);
  EXPECT_EQ(schedule.first_step(2), 6);
  EXPECT_EQ(schedule.epoch_of(5), 1);
  EXPECT_EQ(schedule.epoch_of(6), 2);
  EXPECT_DOUBLE_EQ(schedule.fraction(0), 0);
  EXPECT_DOUBLE_EQ(schedule.fraction(4), 4.0 / 9);
  EXPECT_THROW(schedule.epoch_of(9), c10::Error);
}

TEST(Schedule, StepDecayAtFractionsAndEpochs) {
  const std::vector<std::string> base = {"train.batch=50", "train.epochs=4"};
  const std::vector<double> expected = {1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01};
  expect_rates(Schedule(config_of(base), 100), expected);
  auto epochs = base;
  epochs.emplace_back("train.milestones=[2, 3]");
  expect_rates(Schedule(config_of(epochs), 100), expected);
}

TEST(Schedule, LinearWarmUpReachesTheBaseRate) {
  const Schedule two_epochs(
      config_of({"train.batch=50", "train.epochs=4", "train.warmup=2", "train.schedule=constant"}), 100);
  expect_rates(two_epochs, {0.25, 0.5, 0.75, 1, 1, 1, 1, 1});
  const Schedule quarter(
      config_of({"train.batch=50", "train.epochs=4", "train.warmup=0.25", "train.schedule=constant"}), 100);
  expect_rates(quarter, {0.5, 1, 1, 1, 1, 1, 1, 1});
}

TEST(Schedule, HalfCosineAfterTheWarmUp) {
  const Schedule schedule(config_of({"train.batch=50", "train.epochs=3", "train.warmup=1", "train.schedule=cosine"}),
                          100);
  const double r = std::sqrt(0.5);
  expect_rates(schedule, {0.5, 1, 1, (1 + r) / 2, 0.5, (1 - r) / 2});
}

TEST(Schedule, ThePapersTwoHundredEpochs) {
  const auto config = config_of(
      {"train.lr=3.2", "train.batch=4096", "train.epochs=200", "train.warmup=10", "train.milestones=[100, 150]"});
  const Schedule schedule(config, 50000);
  EXPECT_EQ(schedule.total_steps(), 2400);
  EXPECT_DOUBLE_EQ(schedule.lr(0), 3.2 / 120);
  EXPECT_DOUBLE_EQ(schedule.lr(119), 3.2);
  EXPECT_DOUBLE_EQ(schedule.lr(1199), 3.2);
  EXPECT_DOUBLE_EQ(schedule.lr(1200), 0.32);
  EXPECT_DOUBLE_EQ(schedule.lr(1800), 0.032);
  EXPECT_DOUBLE_EQ(schedule.fraction(600), 0.25);
}

TEST(Schedule, BatchScheduleReplacesBatchAndRate) {
  const Schedule schedule(config_of({"train.batch=25", "train.epochs=4", "train.schedule=constant",
                                     "train.batch_schedule=[[0.25, 50, 2], [3, 100, 4]]"}),
                          100);
  EXPECT_EQ(schedule.batch(0), 25);
  EXPECT_EQ(schedule.batch(2), 50);
  EXPECT_EQ(schedule.steps_per_epoch(3), 1);
  expect_rates(schedule, {1, 1, 1, 1, 2, 2, 2, 2, 4});
  EXPECT_DOUBLE_EQ(schedule.fraction(8), 0.75);
  EXPECT_DOUBLE_EQ(schedule.factor(8), 1);
}

TEST(Schedule, WarmUpRunsOnAcrossABatchChange) {
  const Schedule schedule(config_of({"train.batch=25", "train.epochs=4", "train.schedule=constant", "train.warmup=2",
                                     "train.batch_schedule=[[1, 50, 2]]"}),
                          100);
  expect_rates(schedule, {0.125, 0.25, 0.375, 0.5, 2 * 0.75, 2, 2, 2, 2, 2});
}

TEST(Schedule, FractionsAreWholeEpochsAndNeverTheFirst) {
  EXPECT_EQ(epoch_of_setting(0.29, 100), 29);
  EXPECT_EQ(epoch_of_setting(0.5, 3), 1);
  EXPECT_EQ(epoch_of_setting(0.5, 1), 1);
  EXPECT_EQ(epoch_of_setting(0, 10), 0);
  EXPECT_EQ(epoch_of_setting(1, 10), 1);
  EXPECT_EQ(epoch_of_setting(1e300, 10), 1'000'000'000);
  expect_rates(Schedule(config_of({"train.batch=50", "train.epochs=1"}), 100), {1, 1});
}

TEST(Schedule, RefusesABatchLargerThanTheData) {
  EXPECT_THAT(
      [] { Schedule(config_of({"train.batch=101"}), 100); },
      ThrowsMessage<Error>(HasSubstr("a batch of 101 examples at epoch 0 is larger than the training set of 100")));
  EXPECT_THAT(
      [] {
        Schedule(config_of({"train.batch=10", "train.batch_schedule=[[3, 200, 1]]"}), 100);
      },
      ThrowsMessage<Error>(HasSubstr("at epoch 3")));
}

TEST(Schedule, KnowsWhatDependsOnTheNumberOfEpochs) {
  const auto relative = [](std::vector<std::string> settings, bool noisy = false) {
    settings.insert(settings.begin(), {"train.schedule=constant", "noise.stop_after=1"});
    const Config config = load_config({}, settings);
    return settings_relative_to_epochs(config, noisy || !make_structure(config.noise)->is_zero());
  };
  EXPECT_THAT(relative({}), IsEmpty());
  EXPECT_THAT(relative({"train.warmup=2", "train.schedule=step", "train.milestones=[0, 4]"}), IsEmpty());
  EXPECT_THAT(relative({"train.batch_schedule=[[3, 256, 0]]", "noise.stop_after=0.5"}), IsEmpty());  // no noise
  EXPECT_THAT(relative({"noise.stop_after=0.5"}, /*noisy=*/true), ElementsAre("noise.stop_after = 0.5"));
  EXPECT_THAT(relative({"train.schedule=cosine"}), ElementsAre("train.schedule = \"cosine\""));
  EXPECT_THAT(relative({"train.schedule=step"}), ElementsAre("train.milestones = [0.5, 0.75]"));
  EXPECT_THAT(relative({"train.warmup=0.5", "train.batch_schedule=[[0.5, 256, 0]]"}),
              ElementsAre("train.warmup = 0.5", "train.batch_schedule = [[0.5, 256, 0.0]]"));
  EXPECT_THAT(relative({"regime=lb-diag", "train.warmup=0", "noise.stop_after=0.5"}),
              ElementsAre("noise.stop_after = 0.5"));
  const std::vector<std::string> matched = {"regime=lb-diag-match", "train.warmup=0", "noise.match_schedule=cosine",
                                            "noise.match_warmup=0.2"};
  EXPECT_THAT(relative(matched), ElementsAre("noise.match_schedule = \"cosine\"", "noise.match_warmup = 0.2"));
  EXPECT_THAT(relative({"regime=lb-diag-match", "train.warmup=0", "noise.match_schedule=step"}),
              ElementsAre("train.milestones = [0.5, 0.75]"));
}

TEST(Schedule, RefusesAnUnresolvedRate) { EXPECT_THROW(Schedule(Config(), 1000), c10::Error); }

/// At the end of every step of the large batch: the temperature of SGD and that of the noise add up to the small
/// batch's.
TEST(Schedule, MatchedNoiseHasTheSmallBatchsTemperatureAtEveryStep) {
  constexpr std::int64_t kExamples = 64 * 12, kRatio = 8;
  for (const std::string schedule : {"step", "cosine", "constant"}) {
    for (const std::string placement : {"gradient", "update"}) {
      const std::vector<std::string> common = {"train.schedule=" + schedule, "train.warmup=3", "train.epochs=12"};
      auto settings = common;
      settings.insert(settings.end(), {"regime=lb-diag-match", "train.batch=64", "train.ghost_batch=8", "train.lr=0.2",
                                       "noise.small_batch=8", "noise.match_lr=0.1", "noise.stop_after=1",
                                       "noise.placement=" + placement});
      const Config large = load_config(std::nullopt, settings);
      settings = common;
      settings.insert(settings.end(), {"regime=sb", "train.batch=8", "train.ghost_batch=8", "train.lr=0.1"});
      const Config small = load_config(std::nullopt, settings);
      const Schedule of_large(large, kExamples), of_small(small, kExamples);
      const Injection injection(large.noise);
      for (std::int64_t step = 0; step < of_large.total_steps(); ++step) {
        StepContext context;
        context.step = step;
        context.batch = 64;
        context.lr = of_large.lr(step);
        context.momentum = 0.9;
        context.match_factor = of_large.factor(step);
        const double temperature = context.lr / 0.1 / 64 + injection.noise_temperature(context);
        const double wanted =
            of_small.lr(of_large.epoch_of(step) < 3 ? kRatio * (step + 1) - 1 : kRatio * step) / 0.1 / 8;
        EXPECT_NEAR(temperature / wanted, 1, 1e-12) << schedule << " " << placement << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace covnoise
