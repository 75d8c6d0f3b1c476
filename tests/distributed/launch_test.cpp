// covnoise launch: ranks that end early, restarts, signals.
#include "covnoise/distributed/launch.h"

#include "covnoise/distributed/communicator.h"
#include "distributed/small_training.h"
#include "distributed/socket.h"
#include "support/children.h"
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

/// Rank 1 dies before it has met rank 0, which would wait for ten minutes.
TEST(Launch, EndsRanksThatWaitForOneThatDied) {
  const testing::TemporaryFolder folder;
  LaunchOptions options;
  options.processes = 2;
  options.command = {"/bin/sh", "-c", "[ $RANK = 1 ] && exit 9; exec \"$0\" \"$@\" 2> " + (folder / "log").string(),
                     COVNOISE_PROGRAM};
  for (const auto& word : training(folder / "run", 1, /*timeout=*/600)) options.command.push_back(word);
  std::vector<std::string> said;
  std::chrono::steady_clock::time_point died;
  options.say = [&](const std::string& line) {
    if (said.empty()) died = std::chrono::steady_clock::now();
    said.push_back(line);
  };
  EXPECT_EQ(launch(options), 9);
  EXPECT_LT(std::chrono::steady_clock::now() - died, std::chrono::seconds(5));
  EXPECT_THAT(said, ::testing::ElementsAre(HasSubstr("failed with exit code 9"), HasSubstr("killed the ranks that")));
}

TEST(Launch, WaitingForAnotherMachineCanBeInterrupted) {
  const testing::TemporaryFolder folder;
  const int port = free_port();
  Words words = {COVNOISE_PROGRAM, "launch", "--nnodes", "2", "--port", std::to_string(port)};
  for (const auto& word : training(folder / "run", 1, /*timeout=*/600)) words.push_back(word);
  testing::Process process(words, folder / "log");
  std::string why;
  const Wait wait(std::chrono::seconds(60), [] {});
  ASSERT_TRUE(wait_until([&] { return connect_to("127.0.0.1", port, wait, why).is_open(); }, std::chrono::seconds(60)));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT);
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("passing the signal on to the ranks"),
                                                 HasSubstr("interrupted while waiting for the other ranks")));
}

/// One step of this training takes minutes.
TEST(Launch, PassesTheSecondInterruptOnWhichStopsWithinTheStep) {
  const testing::TemporaryFolder folder;
  testing::Process process(
      {COVNOISE_PROGRAM, "launch", "--nproc", "2", "train", "--model=resnet20", "--data=glyphs", "--threads=1",
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
  Words words = {COVNOISE_PROGRAM, "launch", "--nproc", "2"};
  words.insert(words.end(), options.begin(), options.end());
  for (const auto& word : training(run, epochs)) words.push_back(word);
  return words;
}

TEST(Launch, RestartsAfterALostRankAndEndsAsIfNothingHadHappened) {
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

TEST(Launch, GivesUpAfterTheLastRestartAndAtAConfigurationError) {
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
