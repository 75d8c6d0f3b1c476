// Options of `covnoise train`, and where its files go.
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/config.h"
#include "covnoise/train/internal/metrics.h"
#include "support/program.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainCommand : public testing::ProgramFixture {
 protected:
  TrainCommand() : ProgramFixture({"train"}) {}

  /// Steps of 32 images: two epochs of 2.
  std::vector<std::string> training(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--model",   "mlp",
                                      "--data",    "glyphs",
                                      "--lr",      "0.01",
                                      "--batch",   "32",
                                      "--threads", "1",
                                      "--set",     "data.train_limit=64",
                                      "--set",     "data.test_limit=50",
                                      "--set",     "train.schedule=constant"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(TrainCommand, ShortOptionsSetTheirKeys) {
  const auto [code, output] = run({"--lr", "0.3", "--batch", "256", "--regime", "lb", "--dry-run"});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, HasSubstr("\nbatch = 256\n"));
  EXPECT_THAT(output, HasSubstr("\nlr = 0.3\n"));
  expect_one_line({"--lr", "", "--dry-run"}, "train.lr must be a number");
}

TEST_F(TrainCommand, GroupsThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  const auto out = folder_ / "run";
  for (const char* last : {"--quiet", "--dry-run"})
    expect_one_line({"--model", "resnet8", "--regime", "lb-diag", "--batch", "512", "--set", "noise.group=512", "--out",
                     out.string(), last},
                    "train.batch = 512 is not two or more whole groups of 512 examples");
  EXPECT_FALSE(fs::exists(out));
}

/// A batch that is large enough for noise, or a step late enough for sharpness, never comes.
TEST_F(TrainCommand, WhatWouldNeverComeIsRefusedBeforeAnythingIsWritten) {
  const auto out = folder_ / "run";
  expect_one_line(
      {"--model", "lenet", "--regime", "batch-change", "--epochs", "4", "--set", "noise.structure=diag-fisher", "--set",
       "train.batch_schedule=[[0.25, 1024, 0.1]]", "--out", out.string()},
      "adds no noise, because noise.stop_after = 0.25 ends it before the first batch larger than "
      "noise.small_batch = 128");
  expect_one_line({"--model", "lenet", "--regime", "lb", "--epochs", "4", "--set", "train.sharpness=0.1", "--set",
                   "train.sharpness_after=0.99", "--set", "train.sharpness_batch=512", "--out", out.string()},
                  "train.sharpness_after = 0.99 and train.sharpness_every = 1 leave it none of the");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TrainCommand, SeedsMayStandAnywhere) {
  const auto recipe = folder_ / "recipe.toml";
  write_file_synced(recipe, "model = \"mlp\"\n");
  EXPECT_THAT(run({"--seeds", "0-2", recipe.string(), "--dry-run"}).output, HasSubstr("model = \"mlp\""));
  EXPECT_THAT(run({recipe.string(), "--seeds", "0-2", "--dry-run"}).output, HasSubstr("model = \"mlp\""));
}

TEST_F(TrainCommand, WrongSeedsGetTrueMessages) {
  for (const char* seeds : {"-1", "1-", "2-1", "0,", "a", "", "0 1", "9223372036854775808"})
    expect_one_line({"--seeds", seeds}, "must be seeds from 0 to 9223372036854775807, for example 0,1,2 or 0-2");
  expect_one_line({"--seeds", "0-2,1"}, "seed 1 twice");
  expect_one_line({"--seeds", "0,1", "--seed", "3"}, "--seeds 0,1 and seed=3: give one of them");
  expect_one_line({"--seeds", "0-9000000000000000000"}, "more than 1000 seeds");
}

TEST_F(TrainCommand, SeedsTrainSideBySideWithTheirLogs) {
  const auto [code, output] = run(training({"--epochs", "1", "--seeds", "0-1,4", "--out", folder_.path().string()}));
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output, HasSubstr("standard deviation of 3 seeds"));
  for (const char* name : {"s0", "s1", "s4"}) {
    const std::string run = std::string("mlp-glyphs-sb-b32-lr0.01-e1-") + name;
    EXPECT_TRUE(fs::exists(folder_ / "runs" / run / "metrics.jsonl")) << run;
    EXPECT_TRUE(fs::exists(folder_ / "runs" / "logs" / (run + ".log"))) << run;
  }
  EXPECT_FALSE(fs::exists(folder_ / "logs"));
}

/// What was one run of two epochs, continued, ends as a run of three does.
TEST_F(TrainCommand, MoreEpochsContinueAFinishedRun) {
  const auto continued = folder_ / "continued", whole = folder_ / "whole";
  ASSERT_EQ(run(training({"--epochs", "2", "--out", continued.string()})).code, 0);
  const auto more = run({"--resume", continued.string(), "--epochs", "3"});
  EXPECT_EQ(more.code, 0) << more.output;
  EXPECT_THAT(more.output, HasSubstr("from step 4"));
  ASSERT_EQ(run(training({"--epochs", "3", "--out", whole.string()})).code, 0);
  EXPECT_EQ(read_file(continued / "config.toml"), read_file(whole / "config.toml"));
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_EQ(read_file(continued / "checkpoints/step-00000006" / file),
              read_file(whole / "checkpoints/step-00000006" / file));
  EXPECT_EQ(read_metrics(continued).size(), read_metrics(whole).size());
  EXPECT_THAT(run(training({"--epochs", "3", "--out", continued.string()})).output, HasSubstr("already finished"));
  expect_one_line({"--resume", continued.string(), "--epochs", "2"}, "train.epochs: 3 there, 2 here");
}

TEST_F(TrainCommand, ARunWhoseScheduleDependsOnItsEpochsIsNotContinued) {
  const auto out = folder_ / "run";
  ASSERT_EQ(run(training({"--epochs", "2", "--out", out.string(), "--set", "train.schedule=cosine"})).code, 0);
  const auto config = read_file(out / "config.toml"), metrics = read_file(out / "metrics.jsonl");
  expect_one_line(
      {"--resume", out.string(), "--epochs", "3"},
      "holds a run of 2 epochs that cannot be continued to 3, because its first epochs would have been other "
      "ones (train.schedule = \"cosine\"); choose another folder with --out");
  EXPECT_EQ(read_file(out / "config.toml"), config);
  EXPECT_EQ(read_file(out / "metrics.jsonl"), metrics);
}

TEST_F(TrainCommand, AnotherConfigurationIsToldToGoElsewhere) {
  const auto out = folder_ / "run";
  ASSERT_EQ(run(training({"--epochs", "1", "--out", out.string()})).code, 0);
  const auto [code, output] = run(training({"--epochs", "2", "--out", out.string(), "--seed", "1"}));
  EXPECT_NE(code, 0);
  EXPECT_THAT(output, HasSubstr("(seed: 0 there, 1 here); choose another folder with --out"));
}

}  // namespace
}  // namespace covnoise
