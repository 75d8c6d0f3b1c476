// The time of a queue of runs, and what it leaves with them. sweep_test.cpp has the rest.
#include "covnoise/experiment/runner.h"

#include "covnoise/core/internal/file.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/stored_run.h"
#include "experiment/gpu_slots.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TimedRuns : public ::testing::Test {
 protected:
  RunnerOptions options() {
    RunnerOptions options;
    options.out = folder_.path() / "out";
    options.program = testing::program();
    options.gpu_slots = folder_.path() / "slots";
    options.say = [this](const std::string& line) { said_ += line + "\n"; };
    return options;
  }
  RunSpec spec(std::uint64_t seed, std::int64_t epochs) {
    Config config =
        load_config({}, {"model=mlp", "data=glyphs", "train.batch=64", "data.train_limit=256", "data.test_limit=50",
                         "train.eval_every=0", fmt::format("seed={}", seed), fmt::format("train.epochs={}", epochs)});
    resolve_defaults(config);
    return {fmt::format("s{}", seed), config};
  }
  RunFolder folder_of(const RunSpec& spec) { return RunFolder{folder_.path() / "out" / "runs" / spec.name}; }

  testing::TemporaryFolder folder_;
  std::string said_;
};

TEST_F(TimedRuns, NoneIsStartedThatWouldNotEndInTime) {
  auto run = options();
  run.program = "/bin/false";  // would fail if it were started
  run.minutes = 1;
  run.known.emplace_back();
  run.known.back().config = spec(5, 1).config;
  run.known.back().seconds = 58;  // and some seconds around it
  const auto results = run_all({spec(0, 1), spec(1, 1)}, run);
  for (const auto& result : results) {
    EXPECT_EQ(result.failure, "");
    EXPECT_FALSE(result.summary.has_value());
  }
  EXPECT_THAT(said_, HasSubstr("2 of 2 runs would not end in the 1 minutes"));
  run.minutes = 2;
  EXPECT_EQ(failures_of(run_all({spec(0, 1)}, run)).size(), 1u) << "started, and failed";
}

/// The runs of other commands on the same GPU take their share of it.
TEST_F(TimedRuns, TakeLongerBesideOthersOnTheGpu) {
  auto run = options();
  run.program = "/bin/false";  // fails if it is started
  run.minutes = 1;
  auto one = spec(0, 1);
  one.config.run.device = "cuda";
  run.known = {{one.config, 25, 1}};
  EXPECT_EQ(failures_of(run_all({one}, run)).size(), 1u) << "25 s alone: started";
  const auto other = take_gpu_slot(run.gpu_slots, "cuda"), another = take_gpu_slot(run.gpu_slots, "cuda");
  EXPECT_THAT(failures_of(run_all({one}, run)), IsEmpty()) << "75 s beside two others";
  run.known.push_back({one.config, 50, 3});
  EXPECT_EQ(failures_of(run_all({one}, run)).size(), 1u) << "50 s beside two others: started";
}

/// The time is up once the first run, whose duration nobody knew, has ended: the second is not started.
TEST_F(TimedRuns, AFinishedRunTellsHowLongTheNextTakes) {
  auto run = options();
  run.minutes = 1;
  const auto first = spec(0, 2), second = spec(1, 2);
  run.clock = [&] { return fs::exists(folder_of(first).checkpoints()) ? 59.0 : 0.0; };
  std::vector<std::string> ended;
  run.ended = [&](const RunSpec& one) { ended.push_back(one.name); };
  const auto results = run_all({first, second}, run);
  EXPECT_TRUE(results[0].summary.has_value());
  EXPECT_FALSE(results[1].summary.has_value());
  EXPECT_THAT(ended, ElementsAre("s0"));
  EXPECT_FALSE(fs::exists(folder_of(second).root));
}

/// Interrupted when the time is up, and resumed from its checkpoint: no step is trained twice.
TEST_F(TimedRuns, WhatStillRunsAtTheEndIsResumedByTheNextQueue) {
  auto run = options();
  const auto one = spec(0, 300);
  run.minutes = 1;
  run.clock = [&] {
    const auto metrics = folder_of(one).metrics();
    return fs::exists(metrics) && fs::file_size(metrics) > 0 ? 61.0 : 0.0;
  };
  const auto stopped = run_all({one}, run);
  EXPECT_EQ(stopped[0].failure, "");
  EXPECT_FALSE(stopped[0].summary.has_value());
  EXPECT_THAT(said_, HasSubstr("1 of 1 runs"));
  const auto checkpoints = CheckpointStore(folder_of(one).checkpoints()).list();
  ASSERT_FALSE(checkpoints.empty());
  const auto step = checkpoints.back().step;
  EXPECT_GT(step, 0);
  EXPECT_LT(step, 1200);

  EXPECT_EQ(run_all({one}, options())[0].summary.value().epoch, 300);
  EXPECT_THAT(read_file(options().out / "logs" / "s0.log"), HasSubstr(fmt::format("from step {}\n", step)));
  std::int64_t epochs = 0;
  for (const auto& record : read_metrics(folder_of(one).root)) epochs += record["kind"] == "epoch" ? 1 : 0;
  EXPECT_EQ(epochs, 300);
}

TEST_F(TimedRuns, SayHowManyWereTrainedAtOnce) {
  auto run = options();
  run.jobs = 2;
  run_all({spec(0, 1), spec(1, 1)}, run);
  run.jobs = 1;
  run_all({spec(0, 1), spec(1, 1), spec(2, 1)}, run);
  const auto packing = [&](std::uint64_t seed) {
    return StoredRun(folder_of(spec(seed, 1)).root).document("packing").at("side_by_side").get<int>();
  };
  EXPECT_EQ(packing(0), 2);
  EXPECT_EQ(packing(1), 2);
  EXPECT_EQ(packing(2), 1);
}

TEST_F(TimedRuns, CountThoseOfOtherCommandsOnTheirGpu) {
  auto run = options();
  run.program = folder_.path() / "program";
  write_file_synced(run.program, "#!/bin/sh\nexit 1\n");
  fs::permissions(run.program, fs::perms::owner_all);
  run.jobs = 1;
  auto one = spec(0, 1);
  one.config.run.device = "cuda";
  const auto other = take_gpu_slot(run.gpu_slots, "cuda:0"), elsewhere = take_gpu_slot(run.gpu_slots, "cuda:1");
  run_all({one}, run);
  EXPECT_EQ(read_file(folder_of(one).root / "packing.json"), "{\"side_by_side\":2}\n");
}

}  // namespace
}  // namespace covnoise
