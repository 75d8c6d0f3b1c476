// Batches and micro-batches that the estimators ghost and micro cannot compare are refused before anything is written.
#include "covnoise/core/error.h"
#include "covnoise/train/defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::HasSubstr;

using Settings = std::vector<std::string>;

Config resolved(Settings settings) {
  settings.insert(settings.begin(), {"regime=lb-diag", "train.lr=0.1"});
  auto config = load_config(std::nullopt, settings);
  resolve_defaults(config);
  check_config(config);
  return config;
}

std::string refusal(const Settings& settings) {
  try {
    resolved(settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(NoiseGroups, ThatDoNotDivideTheBatchAreRefused) {
  EXPECT_EQ(refusal({"model=resnet8", "train.batch=1024", "noise.small_batch=96"}),
            "train.batch = 1024 is not two or more whole groups of 96 examples (noise.group, by default "
            "noise.small_batch), which noise.estimator = \"ghost\" compares; change one of them");
  EXPECT_THAT(refusal({"model=resnet8", "train.batch=512", "noise.group=512"}),
              HasSubstr("train.batch = 512 is not two"));
  EXPECT_THAT(refusal({"model=f1", "train.batch=512", "train.ghost_batch=64", "train.batch_schedule=[[1, 576, 0.1]]",
                       "noise.stop_after=1"}),
              HasSubstr("train.batch_schedule's batch = 576 is not two"));
}

TEST(NoiseGroups, ThatDoNotDivideAPassAreRefused) {
  EXPECT_THAT(refusal({"model=resnet8", "train.batch=2048", "noise.small_batch=1024", "train.micro_batch=512"}),
              HasSubstr("train.micro_batch = 512 is not one or more whole groups of 1024"));
  EXPECT_THAT(refusal({"model=f1", "train.batch=1024", "noise.small_batch=256", "train.sharpness=0.1",
                       "train.sharpness_batch=128", "train.sharpness_after=0.5", "noise.stop_after=1"}),
              HasSubstr("train.sharpness_batch = 128 is not one or more whole groups of 256"));
  EXPECT_THAT(refusal({"model=mlp", "noise.estimator=micro", "train.batch=1024", "train.sharpness=0.1",
                       "train.sharpness_batch=1024", "train.sharpness_after=0.5", "noise.stop_after=1"}),
              HasSubstr("a batch of 1024 examples must be two or more times train.sharpness_batch = 1024"));
  EXPECT_THAT(refusal({"model=mlp", "noise.estimator=micro", "train.batch=1024", "train.micro_batch=1024"}),
              HasSubstr("a batch of 1024 examples must be two or more times train.micro_batch = 1024"));
}

/// The default of a CPU is about 512 examples.
TEST(NoiseGroups, AreWholeInTheDefaultMicroBatch) {
  const Settings settings = {"model=resnet8", "train.batch=2048", "noise.small_batch=1024"};
  EXPECT_EQ(resolved(settings).train.micro_batch, 1024);
  auto exact = settings;
  exact.emplace_back("noise.estimator=exact");
  EXPECT_EQ(resolved(exact).train.micro_batch, 512);
  EXPECT_EQ(resolved({"model=resnet8", "train.ghost_batch=96", "train.batch=1152"}).train.micro_batch, 384);
}

TEST(NoiseGroups, DoNotMatterWhereThereIsNoNoise) {
  EXPECT_EQ(refusal({"model=resnet8", "train.batch=1000", "train.ghost_batch=0", "noise.structure=none"}), "no error");
  EXPECT_EQ(refusal({"model=resnet8", "train.batch=1000", "train.ghost_batch=0", "noise.scale=0"}), "no error");
  EXPECT_EQ(refusal({"model=lenet", "train.batch=1000", "train.ghost_batch=0"}), "no error");  // exact
  EXPECT_EQ(refusal({"model=f1", "train.batch=512", "train.ghost_batch=64", "train.batch_schedule=[[5, 576, 0.1]]"}),
            "no error");  // noise for a quarter of ten epochs
  EXPECT_EQ(refusal({"model=f1", "train.batch=1024", "noise.small_batch=256", "train.sharpness=0.1",
                     "train.sharpness_batch=128", "train.sharpness_after=0.5"}),
            "no error");
}

}  // namespace
}  // namespace covnoise
