// The program in several processes: one of them ends, or does not match the others.
#include "covnoise/distributed/communicator.h"
#include "covnoise/distributed/launch.h"
#include "covnoise/train/internal/checkpoint.h"
#include "distributed/small_training.h"
#include "support/children.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/ranks.h"
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

constexpr int kRanks = 4;

/// Starts processes with the variables of a launcher: each is a child of this one and can be killed by its id.
std::vector<testing::Process> start_ranks(const testing::TemporaryFolder& folder, const Words& arguments, int count,
                                          const std::function<Words(int rank)>& more = {}) {
  const std::string port = "MASTER_PORT=" + std::to_string(free_port());
  std::vector<testing::Process> ranks;
  for (int rank = 0; rank < count; ++rank) {
    Words words = {"/usr/bin/env",
                   "RANK=" + std::to_string(rank),
                   "WORLD_SIZE=" + std::to_string(count),
                   "MASTER_ADDR=127.0.0.1",
                   port,
                   testing::program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Words extra = more ? more(rank) : Words{};
    words.insert(words.end(), extra.begin(), extra.end());
    ranks.emplace_back(words, folder / ("log" + std::to_string(rank)));
  }
  return ranks;
}

/// Waits for a new checkpoint, kills one rank, and checks how the others end.
void kill_one(const testing::TemporaryFolder& folder, const Words& arguments, int victim) {
  const auto run = folder / "run";
  auto ranks = start_ranks(folder, arguments, kRanks);
  const auto before = newest_step(run);
  ASSERT_TRUE(wait_until([&] { return newest_step(run) > before; }, std::chrono::seconds(60))) << ranks[0].output();
  ranks[static_cast<std::size_t>(victim)].signal(SIGKILL);
  const auto ended = [&] {
    return std::none_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.running(); });
  };
  EXPECT_TRUE(wait_until(ended, std::chrono::seconds(5))) << "ranks continue without rank " << victim;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& process = ranks[static_cast<std::size_t>(rank)];
    if (process.running()) process.signal(SIGKILL);
    EXPECT_EQ(process.wait(), rank == victim ? 128 + SIGKILL : kLostRankExit) << process.output();
    if (rank == victim) continue;
    EXPECT_THAT(process.output(), HasSubstr("lost rank " + std::to_string(victim) + " ("));
  }
  EXPECT_NO_THROW(CheckpointStore(run / "checkpoints").load_latest([](const std::string& line) { FAIL() << line; }));
}

TEST(Failure, OneOfFourKilledTenTimesAndTheRunEndsAsIfNothingHadHappened) {
  const testing::TemporaryFolder folder;
  constexpr int kEpochs = 60;
  const auto arguments = training(folder / "run", kEpochs);
  for (int time = 0; time < 10; ++time) {
    ASSERT_NO_FATAL_FAILURE(kill_one(folder, arguments, time % kRanks)) << "time " << time;
    ASSERT_LT(newest_step(folder / "run"), 2 * kEpochs) << "it was too fast to be killed " << time + 1 << " times";
  }
  for (const auto& out : {folder / "run", folder / "calm"}) {
    for (auto& rank : start_ranks(folder, training(out, kEpochs), kRanks)) EXPECT_EQ(rank.wait(), 0) << rank.output();
  }
  expect_same_end(folder / "run", folder / "calm");
}

TEST(Failure, RankWithAnotherConfigurationIsRefusedByAll) {
  const testing::TemporaryFolder folder;
  auto ranks = start_ranks(folder, training(folder / "run", 1), 2,
                           [](int rank) { return rank == 1 ? Words{"--seed=5"} : Words{}; });
  for (auto& rank : ranks) {
    EXPECT_EQ(rank.wait(), 1);
    EXPECT_THAT(rank.output(), HasSubstr("was started for another training: seed: 5 there, 0 on rank 0"));
  }
}

TEST(Failure, AMissingRankAndAPortInUseAreOneLineEach) {
  const testing::TemporaryFolder folder;
  const std::string port = std::to_string(free_port());
  const auto words_of = [&](int rank, int size) {
    Words words = {"/usr/bin/env",          "RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(size),
                   "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,          "COVNOISE_ONE_RANK=1",
                   testing::program()};
    for (const auto& word : training(folder / "run", 1, /*timeout=*/1)) words.push_back(word);
    return words;
  };
  testing::Process alone(words_of(1, 2), folder / "log");
  EXPECT_EQ(alone.wait(), 1);
  EXPECT_THAT(alone.output(), ::testing::MatchesRegex("covnoise: rank 1 cannot reach rank 0 at 127.0.0.1:[0-9]+ "
                                                      "within 1 s: [^\n]*\n"));
  const Communicator holder(testing::rank_on_loopback(0, 1, std::stoi(port)), {});
  testing::Process late(words_of(0, 1), folder / "log");
  EXPECT_EQ(late.wait(), 1);
  EXPECT_THAT(late.output(), ::testing::MatchesRegex("covnoise: rank 0 cannot listen on port [0-9]+ [^\n]*\n"));
}

TEST(Launch, TrainsInSeveralProcesses) {
  const testing::TemporaryFolder folder;
  Words words = {testing::program(), "launch", "--nproc", "2"};
  for (const auto& word : training(folder / "run", 1)) words.push_back(word);
  testing::Process process(words, folder / "log");
  EXPECT_EQ(process.wait(), 0);
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("2 ranks\n"), HasSubstr("test accuracy")));
}

TEST(Launch, TrainsOnTwoMachines) {
  constexpr int kNoNamespaces = 77;
  const testing::TemporaryFolder folder;
  testing::Process process({"/bin/bash", (testing::source_dir() / "tests/distributed/two_machines.sh").string(),
                            testing::program(), folder.path().string()},
                           folder / "log");
  const int code = process.wait();
  if (code == kNoNamespaces) GTEST_SKIP() << "network namespaces cannot be made here";
  EXPECT_EQ(code, 0) << process.output();
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("2 ranks\n"), HasSubstr("test accuracy")));
  EXPECT_TRUE(std::filesystem::exists(folder / "a/config.toml"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));  // only rank 0 writes
}

TEST(Launch, GivesTheExitCodeOfTheRankThatFailed) {
  const testing::TemporaryFolder folder;
  testing::Process process({testing::program(), "launch", "--nproc", "2", "train", "--model=nonsense"}, folder / "log");
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.output(), HasSubstr("failed with exit code 1"));
  testing::Process nothing({testing::program(), "launch", "--nproc", "2"}, folder / "log");
  EXPECT_EQ(nothing.wait(), 1);
  EXPECT_THAT(nothing.output(), HasSubstr("covnoise launch --nproc 2 train"));
}

TEST(Launch, PassesAnInterruptOnAndTheRunCanBeResumed) {
  const testing::TemporaryFolder folder;
  Words words = {testing::program(), "launch", "--nproc", "2"};
  for (const auto& word : training(folder / "run", 40)) words.push_back(word);
  testing::Process process(words, folder / "log");
  ASSERT_TRUE(wait_until([&] { return newest_step(folder / "run") > 0; }, std::chrono::seconds(60)));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 128 + SIGTERM) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("interrupted; to resume, repeat the command"));
  EXPECT_LT(newest_step(folder / "run"), 80);
}

TEST(Launch, KilledLeavesNoRankBehind) {
  const testing::Subreaper subreaper;
  const testing::TemporaryFolder folder;
  Words words = {testing::program(), "launch", "--nproc", "2"};
  for (const auto& word : training(folder / "run", 1000)) words.push_back(word);
  testing::Process launcher(words, folder / "log");
  ASSERT_TRUE(wait_until([&] { return newest_step(folder / "run") > 0; }, std::chrono::seconds(60)));
  const auto ranks = testing::children_of(launcher.id());
  ASSERT_EQ(ranks.size(), 2u);
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.wait(), 128 + SIGKILL);
  for (const pid_t rank : ranks) testing::expect_killed(rank);
}

}  // namespace
}  // namespace covnoise
