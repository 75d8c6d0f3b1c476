// Figures from runs: what they need, and what they make of it.
#include "covnoise/experiment/internal/paper.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "experiment/paper/paper_fixture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

using PaperFigures = PaperTest;

/// Figures share the runs of table 2.
TEST_F(PaperFigures, FiguresUseTheRunsOfTable2) {
  std::map<std::string, Config> table;
  for (const auto& run : planned_runs("table2", options(false))) table[run.name] = run.config;
  for (const char* figure : {"fig2", "fig5a", "fig5b"}) {
    for (const auto& run : planned_runs(figure, options(false))) {
      ASSERT_EQ(table.count(run.name), 1u) << run.name;
      EXPECT_TRUE(difference(table[run.name], run.config).empty());
    }
  }
}

TEST_F(PaperFigures, Figure3IsOneConstantRateWithNoiseThatNeverStops) {
  for (const auto& run : planned_runs("fig3", options(false))) {
    EXPECT_EQ(run.config.train.lr, 0.1);
    EXPECT_EQ(run.config.train.schedule, "constant");
    EXPECT_EQ(run.config.noise.stop_after, 1);
    EXPECT_GE(run.config.train.epochs * (50000 / run.config.train.batch), 8000) << run.name;
  }
}

TEST_F(PaperFigures, Figure3SaysWhatTheSeedsDo) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0, 1};
  const auto runs = planned_runs("fig3", o);  // sb, lb, ... of seed 0, then of seed 1
  const auto step = [](double accuracy) {
    return fmt::format(R"({{"kind":"step","step":8000,"train_accuracy":{}}})"
                       "\n",
                       accuracy);
  };
  pretend(runs[0], 21, 0.9, 0.9, step(0.9));
  pretend(runs[5], 21, 0.9, 0.9, step(0.8));
  reproduce("fig3", o);
  const auto rows = json("fig3")["tables"][0]["rows"];
  EXPECT_EQ(rows[0].get<std::vector<std::string>>(),
            (std::vector<std::string>{"sb", "2", "-", "-", "-", "15.00 +- 63.53", ""}));
  EXPECT_EQ(rows[1][6], "not run");
  const auto curves = read_file(results() / "fig3" / "fig3.csv");
  remove_tree(folder_.path() / "paper" / "runs");
  reproduce("fig3", o);  // from what is kept of the runs
  EXPECT_EQ(json("fig3")["tables"][0]["rows"].dump(), rows.dump());
  EXPECT_EQ(read_file(results() / "fig3" / "fig3.csv"), curves);
  pretend(runs[1], 21, 0.9, 0.9, step(0.7));
  reproduce("fig3", o);  // another regime, trained later, takes its place beside them
  EXPECT_EQ(json("fig3")["tables"][0]["rows"][0].dump(), rows[0].dump());
  EXPECT_EQ(json("fig3")["tables"][0]["rows"][1][5], "30.00");
  for (const auto& [name, run] : records("fig3-cifar10-resnet44")) {
    auto record = run.record({});
    record["documents"].erase("training-error");
    update_records(results() / "runs/fig3-cifar10-resnet44.jsonl.gz", {record});
  }
  remove_tree(folder_.path() / "paper" / "runs");
  EXPECT_THAT(reproduce("fig3", o).table, HasSubstr("stays as it is"));  // no curve is left
  EXPECT_EQ(json("fig3")["tables"][0]["rows"][0].dump(), rows[0].dump());
}

/// What an interrupted figure 5a has found is not computed again; what is missing is.
TEST_F(PaperFigures, Figure5aGoesOnWhereItWas) {
  auto o = options(true);
  o.rows = {find_item("fig5a", true).rows.front().recipe};
  reproduce("fig5a", o);
  const auto rows = json("fig5a")["tables"][0]["rows"];
  ASSERT_GE(rows.size(), 2u);
  const auto path = o.runner.out / "runs" / planned_runs("fig5a", o)[0].name / "frobenius-norms.json";
  auto kept = kept_json(path);
  auto& points = kept["points"];
  points[0]["full_unbiased"]["value"] = 123;
  points.erase(points.size() - 1);
  write_file_synced(path, kept.dump());
  reproduce("fig5a", o);
  const auto again = json("fig5a")["tables"][0]["rows"];
  EXPECT_THAT(again[0][1].get<std::string>(), HasSubstr("123 +- "));
  EXPECT_EQ(again.back().dump(), rows.back().dump());
  kept["of"]["seed"] = 7;  // found for another question
  write_file_synced(path, kept.dump());
  reproduce("fig5a", o);
  EXPECT_EQ(json("fig5a")["tables"][0]["rows"].dump(), rows.dump());
}

TEST_F(PaperFigures, Figure5bComparesWithTheLargeBatch) {
  auto o = options(true);
  o.rows = {find_item("fig5b", true).rows.front().recipe};
  o.seeds = {0, 1};
  reproduce("fig5b", o);
  const std::map<std::string, double> values = {{"sb-s0", 1}, {"sb-s1", 2},      {"lb-s0", 3},
                                                {"lb-s1", 5}, {"lb-diag-s0", 4}, {"lb-diag-s1", 4}};
  for (const auto& run : planned_runs("fig5b", o)) {
    const auto path = o.runner.out / "runs" / run.name / "largest-eigenvalue.json";
    auto kept = kept_json(path);
    kept["value"] = values.at(fs::path(run.name).filename().string());
    write_file_synced(path, kept.dump());
  }
  reproduce("fig5b", o);
  const auto rows = json("fig5b")["tables"][0]["rows"];
  EXPECT_EQ(rows[0][2], "1.5 +- 6.4");            // t with 1 degree of freedom 12.706, times 0.5
  EXPECT_EQ(rows[0][4], "-2.50 [-9.42, +4.42]");  // 1.47 degrees of freedom: 6.19 times 1.118
  EXPECT_EQ(rows[1][4], "-");
  EXPECT_EQ(rows[2][2], "4 +- 0");
  EXPECT_EQ(rows[2][4], "+0.00 [-12.71, +12.71]");
}

TEST_F(PaperFigures, AlongATrainingNeedNetworksThatItKeeps) {
  auto o = options(false);
  o.recipes = folder_ / "mine";
  create_folders(o.recipes);
  write_file_synced(o.recipes / "cifar10-resnet44.toml", "model = 'resnet44'\ndata = 'cifar10'\ntrain.epochs = 20\n");
  for (const char* figure : {"fig2", "fig5a"}) {
    EXPECT_THAT([&] { reproduce(figure, o); },
                ::testing::ThrowsMessage<Error>(HasSubstr("of which cifar10-resnet44/sb-s0 keeps none")));
    EXPECT_FALSE(fs::exists(results() / figure));
  }
}

}  // namespace
}  // namespace covnoise::paper
