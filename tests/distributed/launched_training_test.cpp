// covnoise launch: trainings in two processes that are interrupted, killed and restarted.
#include "covnoise/distributed/communicator.h"
#include "distributed/small_training.h"
#include "distributed/socket.h"
#include "support/children.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace covnoise {
namespace {

using testing::expect_same_end;
using ::testing::HasSubstr;
using testing::newest_step;
using testing::training;
using testing::wait_until;
using testing::Words;

/// One step of this training takes minutes.
TEST(LaunchedTraining, PassesTheSecondInterruptOnWhichStopsWithinTheStep) {
  const testing::TemporaryFolder folder;
  testing::Process process(
      {testing::program(), "launch", "--nproc", "2", "train", "--model=resnet20", "--data=glyphs", "--threads=1",
       "--epochs=9", "--set=train.batch=10000", "--set=train.ghost_batch=2", "--set=train.micro_batch=2",
       "--set=train.warmup=0", "--set=train.lr=0.1", "--out=" + (folder / "run").string()},
      folder / "log");
  const auto says = [&](const char* text) { return process.output().find(text) != std::string::npos; };
  constexpr std::chrono::seconds kLong(120);
  ASSERT_TRUE(wait_until([&] { return says("parameters, "); }, kLong)) << process.output();
  process.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return says("stopping after this step"); }, kLong)) << process.output();
  const auto again = [&] {
    if (says("passing the second signal on")) return true;
    process.signal(SIGINT);  // ignored if it comes too soon after the first
    return false;
  };
  ASSERT_TRUE(wait_until(again, kLong)) << process.output();
  EXPECT_EQ(process.wait(), 128 + SIGINT) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("stopped within a step"));
}

/// Kills rank 1 after another checkpoint.
void kill_rank_one(const testing::Process& launcher, const std::filesystem::path& run) {
  const auto before = newest_step(run);
  ASSERT_TRUE(wait_until([&] { return newest_step(run) > before; }, std::chrono::seconds(60))) << launcher.output();
  const auto ranks = testing::children_of(launcher.id());
  ASSERT_EQ(ranks.size(), 2u) << launcher.output();
  ASSERT_EQ(::kill(ranks.back(), SIGKILL), 0);
}

Words launching(const Words& options, const std::filesystem::path& run, int epochs) {
  Words words = {testing::program(), "launch", "--nproc", "2"};
  words.insert(words.end(), options.begin(), options.end());
  for (const auto& word : training(run, epochs)) words.push_back(word);
  return words;
}

TEST(LaunchedTraining, RestartsAfterALostRankAndEndsAsIfNothingHadHappened) {
  constexpr int kEpochs = 20;
  const testing::TemporaryFolder folder;
  const Words twice = {"--restarts", "2", "--port", std::to_string(free_port())};
  testing::Process process(launching(twice, folder / "run", kEpochs), folder / "log");
  for (int time = 0; time < 2; ++time) ASSERT_NO_FATAL_FAILURE(kill_rank_one(process, folder / "run"));
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("lost rank 1 ("), HasSubstr("(restart 1 of 2)"),
                                                 HasSubstr("(restart 2 of 2)"), HasSubstr("resuming ")));
  testing::Process calm(launching({}, folder / "calm", kEpochs), folder / "calm-log");
  EXPECT_EQ(calm.wait(), 0) << calm.output();
  expect_same_end(folder / "run", folder / "calm");
}

TEST(LaunchedTraining, GivesUpAfterTheLastRestartAndAtAConfigurationError) {
  const testing::TemporaryFolder folder;
  testing::Process process(launching({"--restarts", "1"}, folder / "run", 1000), folder / "log");
  for (int time = 0; time < 2; ++time) ASSERT_NO_FATAL_FAILURE(kill_rank_one(process, folder / "run"));
  const int code = process.wait();
  EXPECT_TRUE(code == 128 + SIGKILL || code == kLostRankExit) << code;
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("(restart 1 of 1)"), HasSubstr("stopped early")));
  auto wrong = launching({"--restarts", "1"}, folder / "wrong", 1);
  wrong.push_back("--set=model=nonsense");
  testing::Process refused(wrong, folder / "log");
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_THAT(refused.output(), ::testing::Not(HasSubstr("restart")));
}

}  // namespace
}  // namespace covnoise
