#include "covnoise/report/internal/collect.h"

#include "covnoise/core/error.h"
#include "covnoise/train/internal/run_records.h"
#include "report/report_folders.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise::report {
namespace {

namespace fs = std::filesystem;
using covnoise::testing::make_run;
using covnoise::testing::run_config;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;
using Json = nlohmann::ordered_json;

class Collect : public ::testing::Test {
 protected:
  void make(const std::string& name, const Config& config, std::int64_t epochs = 3, const std::string& more = "") {
    make_run(folder_ / name, config, epochs, 0.9, more);
  }
  std::vector<std::string> labels(const Report& report) {
    std::vector<std::string> labels;
    for (const auto& group : report.groups) labels.push_back(group.label);
    return labels;
  }

  covnoise::testing::TemporaryFolder folder_;
};

TEST_F(Collect, FindsRunsBelowAFolderOnce) {
  make("a/b/run", run_config("sb", 0));
  make("run", run_config("sb", 1));
  make("run/checkpoints/step-1", run_config("sb", 2));
  const Report report = collect({folder_.path(), folder_ / "a", folder_ / "run"});
  ASSERT_THAT(report.runs, SizeIs(2));
  EXPECT_EQ(report.runs[0].path, folder_ / "a/b/run");
  EXPECT_EQ(report.runs[1].path, folder_ / "run");
  EXPECT_THAT(report.problems, IsEmpty());
}

/// What `covnoise paper` leaves: the run's folder, its record, and perhaps a record as earlier versions wrote it.
TEST_F(Collect, CountsARunOnceThatAlsoHasARecord) {
  make("runs/row/sb-s0", run_config("sb", 0));
  write_file_synced(folder_ / "runs/row/sb-s0/metrics.csv", "kind\n");  // as training leaves it
  make("results/runs/row/sb-s0", run_config("sb", 0));
  update_records(folder_ / "results/runs/row.jsonl.gz", {StoredRun(folder_ / "runs/row/sb-s0").record({})});
  const Report report = collect({folder_.path()});
  ASSERT_THAT(report.runs, SizeIs(1));
  EXPECT_EQ(report.runs[0].path, folder_ / "runs/row/sb-s0");
  EXPECT_EQ(report.runs[0].steps["step"].size(), 6u);
  const Report records = collect({folder_ / "results"});
  ASSERT_THAT(records.runs, SizeIs(1));
  EXPECT_EQ(records.runs[0].state, State::kFinished);
  EXPECT_EQ(records.runs[0].epochs, report.runs[0].epochs);
  EXPECT_TRUE(records.runs[0].steps.empty());
}

TEST_F(Collect, SaysWhatTrainedARun) {
  make("a", run_config("sb", 0));
  make("b", run_config("sb", 1));
  write_file_synced(folder_ / "a/software.json", R"({"commit": "0123456789ab"})");
  const Report report = collect({folder_.path()});
  EXPECT_EQ(report.runs[0].software, Json({{"commit", "0123456789ab"}}));
  EXPECT_EQ(report.runs[1].software, Json::object());
}

TEST_F(Collect, LinksMayGoInCircles) {
  make("run", run_config("sb", 0));
  fs::create_directory_symlink(folder_.path(), folder_ / "run/up");
  EXPECT_THAT(collect({folder_.path()}).runs, SizeIs(1));
}

TEST_F(Collect, GroupsRunsThatDifferInTheirSeed) {
  make("c", run_config("lb-diag", 0));
  make("a", run_config("sb", 1));
  make("b", run_config("sb", 0));
  Config other_threads = run_config("sb", 2);
  other_threads.run.threads = 7;
  make("d", other_threads);
  const Report report = collect({folder_.path()});
  EXPECT_THAT(labels(report), ElementsAre("sb", "lb-diag"));
  EXPECT_THAT(report.groups[0].runs, ElementsAre(1, 0, 3));  // by seed
  EXPECT_THAT(report.groups[1].runs, ElementsAre(2));
}

TEST_F(Collect, LabelsSayWhatTellsTheGroupsOfARegimeApart) {
  make("a", run_config("lb", 0));
  Config other = run_config("lb", 0);
  other.train.lr = 0.25;
  make("b", other);
  make("c", run_config("sb", 0));
  EXPECT_THAT(labels(collect({folder_.path()})), ElementsAre("sb", "lb, train.lr 0.0", "lb, train.lr 0.25"));
  other.train.lr = 0.5;
  other.train.momentum = other.noise.match_momentum = 0.25;
  make("d", other);
  EXPECT_THAT(labels(collect({folder_.path()})),
              ElementsAre("sb", "lb, train.lr 0.0", "lb, train.lr 0.25", "lb, train.lr 0.5"));
  other.train.lr = 0.25;
  make("e", other);
  EXPECT_THAT(labels(collect({folder_.path()})),
              ElementsAre("sb", "lb, train.lr 0.0, train.momentum 0.9", "lb, train.lr 0.25, train.momentum 0.25",
                          "lb, train.lr 0.25, train.momentum 0.9", "lb, train.lr 0.5, train.momentum 0.25"));
}

/// Runs of `covnoise paper`: the folder of a row has NAME-sSEED, or its records.
TEST_F(Collect, LabelsAreNamesWhereRunsHaveThem) {
  Config calm = run_config("lb", 0);
  calm.train.lr = 0.25;
  make("row/lb-s0", run_config("lb", 0));
  make("row/lb-s1", run_config("lb", 1));
  make("row/lb-calm-s0", calm);
  EXPECT_THAT(labels(collect({folder_ / "row"})), ElementsAre("lb", "lb-calm"));
  update_records(folder_ / "records/runs/row.jsonl.gz",
                 {StoredRun(folder_ / "row/lb-s0").record({}), StoredRun(folder_ / "row/lb-calm-s0").record({})});
  EXPECT_THAT(labels(collect({folder_ / "records"})), ElementsAre("lb", "lb-calm"));
  make("runs/lb-calm-s0", calm);
  EXPECT_THAT(labels(collect({folder_ / "runs"})), ElementsAre("lb")) << "a run of covnoise train";
  make("other/calm-s5", calm);
  EXPECT_THAT(labels(collect({folder_ / "other"})), ElementsAre("lb")) << "its seed is 0";
}

TEST_F(Collect, LabelsOfTwoConfigurationsDiffer) {
  Config calm = run_config("lb", 0), calmer = run_config("lb", 0);
  calm.train.lr = 0.25, calmer.train.lr = 0.125;
  make("a/calm-s0", calm);
  make("b/calm-s0", calmer);
  make("a/mine-s0", run_config("lb", 0));
  EXPECT_THAT(labels(collect({folder_.path()})), ElementsAre("mine", "lb, train.lr 0.125", "lb, train.lr 0.25"));
  make("b/lb, train.lr 0.25-s0", run_config("sb", 0));  // the label of another group
  make("b/yours-s1", run_config("lb", 1));              // another name of the first group
  EXPECT_THAT(labels(collect({folder_.path()})),
              ElementsAre("sb", "lb, train.lr 0.0", "lb, train.lr 0.125", "lb, train.lr 0.25"));
}

TEST_F(Collect, ReadsColumnsWithWhatIsAbsentAndWhatIsNotFinite) {
  const std::string line = R"({"kind":"epoch","step":20,"epoch":2,"test_loss":null,"extra":4,"word":"x"})"
                           "\n";
  make("run", run_config("sb", 0), 1, line);
  const Report report = collect({folder_.path()});
  const auto& epochs = report.runs[0].epochs;
  EXPECT_EQ(epochs["epoch"], Json({1, 2}));
  EXPECT_EQ(epochs["test_loss"], Json({1.5, "nan"}));
  EXPECT_EQ(epochs["test_accuracy"][1], Json());
  EXPECT_EQ(epochs["extra"], Json({nullptr, 4}));
  EXPECT_FALSE(epochs.contains("word"));
  EXPECT_EQ(report.runs[0].steps["step"], Json({5, 10}));
}

TEST_F(Collect, SaysHowRunsEnded) {
  make("a", run_config("sb", 0));
  make("b", run_config("sb", 1), 2, R"({"kind":"step","ste)");  // killed while it wrote
  make("c", run_config("sb", 2), 1,
       R"({"kind":"diverged","step":11,"message":"the loss is not finite"})"
       "\n");
  make("d", run_config("sb", 3), 0);
  make("e", run_config("sb", 4), 2,
       R"({"kind":"epoch","step":30,"epoch":3,"test_loss":null})"
       "\n");
  const auto runs = collect({folder_.path()}).runs;
  EXPECT_EQ(runs[0].state, State::kFinished);
  EXPECT_EQ(runs[1].state, State::kUnfinished);
  EXPECT_EQ(runs[2].state, State::kDiverged);
  EXPECT_EQ(runs[2].note, "the loss is not finite");
  EXPECT_EQ(runs[3].state, State::kUnfinished);
  EXPECT_EQ(runs[4].state, State::kDiverged);
}

TEST_F(Collect, ThinsLongTablesOfStepsAlikeInAllRuns) {
  std::string lines;
  for (int step = 1; step <= 2 * kMostSteps + 1; ++step) {
    lines += fmt::format("{{\"kind\":\"step\",\"step\":{}}}\n", step);
  }
  make("long", run_config("sb", 0), 0, lines);
  make("short", run_config("sb", 1));
  const Report report = collect({folder_.path()});
  EXPECT_EQ(report.every, 3);
  EXPECT_EQ(report.runs[0].steps["step"].size(), static_cast<std::size_t>((2 * kMostSteps + 1) / 3));
  EXPECT_EQ(report.runs[1].steps["step"], Json({15, 30}));
}

TEST_F(Collect, ReadsFiguresWithTheNumbersBesideThem) {
  create_folders(folder_ / "theory");
  write_file_synced(folder_ / "theory/loss.svg", "<svg><title>Loss &lt; 1 &amp; more</title></svg>");
  write_file_synced(folder_ / "theory/loss.csv", "a,b\n1,2\n");
  write_file_synced(folder_ / "theory/big.json", std::string(kLargestFile + 1, ' '));
  write_file_synced(folder_ / "theory/loss.png", "");
  const Report report = collect({folder_.path()});
  ASSERT_THAT(report.folders, SizeIs(1));
  const auto& theory = report.folders[0];
  EXPECT_EQ(theory.figures.at(0).title, "Loss < 1 & more");
  ASSERT_THAT(theory.files, SizeIs(2));
  EXPECT_EQ(theory.files[0].name, "big.json");
  EXPECT_FALSE(theory.files[0].text);
  EXPECT_EQ(theory.files[1].text, "a,b\n1,2\n");
}

TEST_F(Collect, FiguresOfARunComeWithoutItsMetrics) {
  make("run", run_config("sb", 0));
  write_file_synced(folder_ / "run/metrics.csv", "step\n");
  write_file_synced(folder_ / "run/fisher.svg", "<svg/>");
  const Report report = collect({folder_.path()});
  EXPECT_THAT(report.runs, SizeIs(1));
  EXPECT_THAT(report.folders.at(0).files, IsEmpty());
}

TEST_F(Collect, DamagedRunsAreProblemsNotFailures) {
  make("good", run_config("sb", 0));
  make("bad", run_config("sb", 1));
  write_file_synced(folder_ / "bad/config.toml", "modle = \"lenet\"\n");
  const Report report = collect({folder_.path()});
  EXPECT_THAT(report.runs, SizeIs(1));
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("bad/config.toml")));
  write_file_synced(folder_ / "row.jsonl.gz", "damaged");
  EXPECT_THAT(collect({folder_.path()}).problems, ElementsAre(HasSubstr("row.jsonl.gz"), HasSubstr("bad/config.toml")));
}

TEST_F(Collect, FoldersWithoutAnythingAreErrors) {
  make("good", run_config("sb", 0));
  create_folders(folder_ / "empty");
  EXPECT_THAT(
      [&] {
        collect({folder_ / "good", folder_ / "empty"});
      },
      ThrowsMessage<Error>(HasSubstr("nothing to report in " + (folder_ / "empty").string())));
  EXPECT_THAT([&] { collect({folder_ / "none"}); }, ThrowsMessage<Error>(HasSubstr("there is no folder")));
  EXPECT_THAT([&] { collect({folder_ / "good/config.toml"}); }, ThrowsMessage<Error>(HasSubstr("is not a folder")));
  write_file_synced(folder_ / "good/config.toml", "modle = \"lenet\"\n");
  EXPECT_THAT([&] { collect({folder_.path()}); }, ThrowsMessage<Error>(HasSubstr("config.toml")));
}

}  // namespace
}  // namespace covnoise::report
