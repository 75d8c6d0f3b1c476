#include "covnoise/experiment/sweep.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/run_folder.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <set>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

SweepOptions tiny() {
  SweepOptions options;
  options.set = {"model=mlp",      "data=glyphs",          "train.epochs=1",
                 "train.batch=64", "data.train_limit=256", "data.test_limit=50"};
  return options;
}

TEST(SweepPoints, AreTheWholeGridWithItsSeeds) {
  auto options = tiny();
  options.vary = {"train.lr=0.1,0.2,0.3", "train.milestones=[0.5,0.75],[0.25]", "seed=0,1"};
  const auto points = sweep_points(options);
  ASSERT_EQ(points.size(), 6u);
  std::set<std::string> names;
  for (const auto& point : points)
    for (const auto& run : point.runs) names.insert(run.name);
  EXPECT_EQ(names.size(), 12u);
  EXPECT_EQ(points[5].runs[1].config.train.lr, 0.3);
  EXPECT_EQ(points[5].runs[1].config.train.milestones, std::vector<double>{0.25});
  EXPECT_EQ(points[5].runs[1].config.seed, 1u);
}

TEST(SweepPoints, AreDrawnFromRangesByTheirSeed) {
  auto options = tiny();
  options.vary = {"train.lr=log:0.001:1", "train.momentum=lin:0:0.9", "train.nesterov=true,false"};
  options.random = 20;
  const auto points = sweep_points(options), again = sweep_points(options);
  ASSERT_EQ(points.size(), 20u);
  int low = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const double lr = points[i].runs[0].config.train.lr;
    EXPECT_TRUE(lr >= 0.001 && lr <= 1);
    EXPECT_EQ(lr, again[i].runs[0].config.train.lr);
    low += lr < 0.0316 ? 1 : 0;  // half of the decades
  }
  EXPECT_TRUE(low >= 4 && low <= 16) << low;
}

/// Grids of different keys one after the other, each with the common key; repeated settings are not run again.
TEST(SweepPoints, AreThoseOfSeveralGrids) {
  auto options = tiny();
  options.vary = {"train.momentum=0.5,0.9"};
  options.grids = {"regime=sb train.lr=0.1", "regime=lb-diag train.lr=0.1,0.2 noise.stop_after=1",
                   "regime=sb train.lr=0.1"};
  const auto points = sweep_points(options);
  ASSERT_EQ(points.size(), 6u);
  EXPECT_EQ(points[1].runs[0].name, "regimesb-lr0.1-momentum0.9");
  EXPECT_EQ(points[5].runs[0].config.noise.structure, "diag-fisher");
  EXPECT_EQ(points[5].runs[0].config.noise.stop_after, 1);
  std::vector<SweepOutcome> outcomes(2);
  outcomes[0].point = points[0];
  outcomes[1].point = points[5];
  EXPECT_THAT(sweep_table(outcomes), HasSubstr("regime   train.lr  train.momentum  noise.stop_after"));
}

TEST(SweepPoints, AreLimitedToChosenValues) {
  auto options = tiny();
  options.grids = {"regime=sb,lb train.lr=0.1,0.2", "regime=lb-diag train.lr=0.2"};
  options.only = {"regime=lb,lb-diag", "train.lr=0.2"};
  const auto points = sweep_points(options);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].runs[0].name, "regimelb-lr0.2");
  EXPECT_EQ(points[1].runs[0].name, "regimelb-diag-lr0.2");
  for (const char* nothing : {"regime=lb-kfac", "train.momentum=0.9", "regime"}) {
    options.only = {nothing};
    EXPECT_THROW(sweep_points(options), Error) << nothing;
  }
}

/// Judged by the held-out examples, with the test set beside them; or by the test set, which is then stated once.
TEST(SweepTable, SaysWhichSplitJudged) {
  auto options = tiny();
  options.vary = {"train.lr=0.1"};
  std::vector<SweepOutcome> outcomes(1);
  outcomes[0].point = sweep_points(options).front();
  outcomes[0].ended = 1;
  outcomes[0].accuracy = outcomes[0].test_accuracy = 0.75;
  EXPECT_THAT(sweep_table(outcomes),
              HasSubstr("train.lr  test [%]  remarks\n0.1       75.00\n\nJudged by the test set"));
  options.set.emplace_back("data.holdout=50");
  outcomes[0].point = sweep_points(options).front();
  outcomes[0].accuracy = 0.5;
  EXPECT_THAT(sweep_table(outcomes),
              HasSubstr("train.lr  held out [%]  test [%]  remarks\n0.1       50.00         75.00"));
}

/// A run that diverged has no value: a single remaining run has no spread.
TEST(SweepTable, HasASpreadOfTheRunsThatDidNotDiverge) {
  auto options = tiny();
  options.vary = {"train.lr=0.1", "seed=0,1,2"};
  const auto point = sweep_points(options).front();
  EXPECT_THAT(sweep_table({{point, 3, 2, 0.75, 0, 0.75}}), HasSubstr("75.00     2/3 diverged"));
  EXPECT_THAT(sweep_table({{point, 3, 1, 0.75, 0, 0.75}}), HasSubstr("75.00 +- 0.00  1/3 diverged"));
}

TEST(SweepPoints, RefuseInvalidOptions) {
  const auto refuse = [](std::vector<std::string> vary) {
    auto options = tiny();
    options.vary = std::move(vary);
    EXPECT_THROW(sweep_points(options), Error) << ::testing::PrintToString(options.vary);
  };
  refuse({});
  refuse({"train.lr"});
  refuse({"train.lr=0.1,,0.2"});
  refuse({"train.lr=log:0.1:1"});  // a range without --random
  refuse({"train.rate=0.1"});
  refuse({"train.lr=-1"});
}

/// Lines of a saved table replace missing runs with the same values, whatever keys other grids have.
TEST(CollectSweep, KeepsWhatAnEarlierTableKnows) {
  const testing::TemporaryFolder folder;
  auto options = tiny();
  options.grids = {"regime=sb train.lr=0.1,0.2 seed=0,1", "regime=batch-change train.batch_schedule=[[0.25,128,0.8]]"};
  std::vector<SweepOutcome> known;
  for (const auto& point : sweep_points(options)) known.push_back({point, 2, 1, 0.5, 0.01, 0.25});
  known[1].ended = 0;  // the table has no run of it
  save_sweep(known, folder.path());

  options.grids[0] = "regime=sb,lb train.lr=0.1,0.2 train.momentum=0.9 seed=0,1";  // one more key: other settings
  options.grids.emplace_back("regime=sb train.lr=0.1,0.2 seed=0,1");
  const auto points = sweep_points(options);
  const auto outcomes = collect_sweep(points, folder.path() / "nothing", folder.path() / "sweep.csv").outcomes;
  ASSERT_EQ(outcomes.size(), points.size());
  EXPECT_EQ(outcomes[0].point.values, known[2].point.values);
  EXPECT_EQ(outcomes[1].point.values, known[0].point.values);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].ended, i < 2 ? 2 : 0);
    EXPECT_EQ(outcomes[i].diverged, i < 2 ? 1 : 0);
    EXPECT_EQ(std::isnan(outcomes[i].accuracy), i >= 2);
  }
  EXPECT_THAT((std::vector<double>{outcomes[1].accuracy, outcomes[1].deviation, outcomes[1].test_accuracy}),
              ElementsAre(0.5, 0.01, 0.25));
  write_file_synced(folder.path() / "other.csv", "a,b\n1,2\n");
  EXPECT_THROW(collect_sweep(points, folder.path(), folder.path() / "other.csv"), Error);
  options.set.emplace_back("data.holdout=100");  // the test set judged the table
  EXPECT_THROW(collect_sweep(sweep_points(options), folder.path(), folder.path() / "sweep.csv"), Error);
}

class RunnerTest : public ::testing::Test {
 protected:
  RunnerOptions options() {
    RunnerOptions options;
    options.out = folder_.path() / "sweep";
    options.program = testing::program();
    options.say = [this](const std::string& line) { said_ += line + "\n"; };
    return options;
  }
  testing::TemporaryFolder folder_;
  std::string said_;
};

/// A learning rate that is far too high diverges: the last in the ranking, not an error. Nothing is trained twice.
TEST_F(RunnerTest, RanksAndDoesNotRepeat) {
  auto sweep = tiny();
  sweep.vary = {"train.lr=1e20,0.05"};
  auto run = options();
  run.jobs = 2;
  EXPECT_THAT(sweep_plan(sweep_points(sweep), run.out), AllOf(HasSubstr("2 runs\n"), HasSubstr("not run")));
  const auto outcomes = run_sweep(sweep_points(sweep), run).outcomes;
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].point.values[0].second, "0.05");
  EXPECT_TRUE(std::isnan(outcomes[1].accuracy));
  EXPECT_EQ(outcomes[1].diverged, 1);
  EXPECT_THAT(sweep_table(outcomes), HasSubstr("Judged by the test set"));
  for (const auto& path : save_sweep(outcomes, run.out)) EXPECT_GT(fs::file_size(path), 50u);
  run.program = "/bin/false";  // would fail if it were started
  run_sweep(sweep_points(sweep), run);
  const auto& best = outcomes[0].point.runs.front();
  const auto checkpoints = RunFolder{run.out / "runs" / best.name}.checkpoints();
  ASSERT_TRUE(fs::exists(checkpoints));
  ASSERT_TRUE(remove_tree(checkpoints));
  run_sweep(sweep_points(sweep), run);
  EXPECT_EQ(collect_sweep(sweep_points(sweep), run.out).outcomes[0].accuracy, outcomes[0].accuracy);
  EXPECT_THAT(said_, HasSubstr("2 of 2 runs were already finished"));
  EXPECT_THAT(sweep_plan(sweep_points(sweep), run.out), AllOf(HasSubstr("finished"), HasSubstr("diverged")));
}

/// The table has both seeds of the first setting, and one of the second.
TEST_F(RunnerTest, TrainsWhatAnEarlierTableDoesNotHave) {
  auto sweep = tiny();
  sweep.vary = {"train.lr=0.05,0.1", "seed=0,1"};
  const auto points = sweep_points(sweep);
  const auto table = folder_.path() / "sweep.csv";
  save_sweep({{points[0], 2, 0, 0.99, 0, 0.99}, {points[1], 1, 0, 0.99, 0, 0.99}}, folder_.path());
  EXPECT_THAT(sweep_plan(points, options().out, table), AllOf(HasSubstr("2 runs\n"), Not(HasSubstr("lr0.05"))));
  const auto outcomes = run_sweep(points, options(), table).outcomes;
  EXPECT_EQ(outcomes[0].point.values, points[0].values);
  EXPECT_EQ(outcomes[0].accuracy, 0.99);
  EXPECT_EQ(outcomes[1].ended, 2);
  EXPECT_LT(outcomes[1].accuracy, 0.99);
  EXPECT_FALSE(fs::exists(options().out / "runs" / points[0].runs[0].name));
}

TEST_F(RunnerTest, SaysThatAnEarlierTableHasAllSettings) {
  auto sweep = tiny();
  sweep.vary = {"train.lr=0.05,0.1"};
  const auto points = sweep_points(sweep);
  const auto table = folder_.path() / "sweep.csv";
  save_sweep({{points[0], 1, 0, 0.99, 0, 0.99}, {points[1], 1, 0, 0.98, 0, 0.98}}, folder_.path());
  const auto line = "2 settings, all in " + table.string() +
                    " already: to train them again, give --table a new file, and no --earlier\n";
  EXPECT_EQ(sweep_plan(points, options().out, table), line);
  EXPECT_THAT(run_sweep(points, options(), table).outcomes, SizeIs(2));
  EXPECT_EQ(said_, line);
}

TEST_F(RunnerTest, AnInterruptedSweepIsResumed) {
  auto sweep = tiny();
  sweep.vary = {"seed=0,1,2"};
  auto run = options();
  int asked = 0;
  run.stop_signal = [&] { return ++asked > 10 ? SIGINT : 0; };  // in the first run
  try {
    run_sweep(sweep_points(sweep), run);
    FAIL() << "not interrupted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 130);
    EXPECT_THAT(error.what(), HasSubstr("of 3 runs left"));
  }
  const auto outcomes = run_sweep(sweep_points(sweep), options()).outcomes;
  EXPECT_EQ(outcomes[0].point.runs.size(), 3u);
  EXPECT_GT(outcomes[0].accuracy, 0.05);
}

TEST_F(RunnerTest, AFailedRunSaysWhyAndLetsTheOthersFinish) {
  auto sweep = tiny();
  sweep.vary = {"data.name=mnist,glyphs", "seed=0,1"};
  auto run = options();
  run.jobs = 2;
  run.data_dir = folder_.path().string();  // where there is no mnist
  const auto points = sweep_points(sweep);
  const auto result = run_sweep(points, run);
  ASSERT_EQ(result.failures.size(), 2u);
  EXPECT_THAT(result.failures[1], AllOf(HasSubstr("namemnist-s1 failed"), HasSubstr("mnist"), HasSubstr(".log")));
  EXPECT_EQ(result.outcomes[0].point.values[0].second, "glyphs");
  EXPECT_EQ(result.outcomes[0].ended, 2);
  EXPECT_THAT(sweep_table(result.outcomes), HasSubstr("2/2 missing"));
  said_.clear();
  EXPECT_THROW(refuse_failures(result.failures, run.say), Error);
  EXPECT_EQ(said_, result.failures[0] + "\n" + result.failures[1] + "\n");
  EXPECT_TRUE(std::isnan(collect_sweep(points, run.out).outcomes[1].accuracy));
}

}  // namespace
}  // namespace covnoise
