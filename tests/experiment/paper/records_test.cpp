// Which runs and records an item takes, and what it leaves alone.
#include "covnoise/core/error.h"
#include "experiment/paper/cells.h"
#include "experiment/paper/paper_fixture.h"

#include <gmock/gmock.h>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(PaperTest, ARunOfAnotherConfigurationDoesNotCount) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0};
  auto spec = planned_runs("table2", o)[0];
  spec.config.train.lr = 1;
  pretend(spec, 50, 0.99, 0.97);
  reproduce("table2", o);
  EXPECT_EQ(json("table2")["tables"][0]["rows"][0][7], "seed 0 of another configuration");
}

/// What results/ keeps is enough for the table, but not for what looks into a network that nobody looked into.
TEST_F(PaperTest, RecordsStandInForRunsThatAreGone) {
  auto o = options(false);
  o.train = false;
  o.rows = {"cifar10-resnet44"};
  o.seeds = {0};
  for (const auto& spec : planned_runs("table2", o)) pretend(spec, 200, 0.999, 0.93);
  reproduce("table2", o);
  const auto before = json("table2").at("tables").dump(2);
  remove_tree(folder_.path() / "paper" / "runs");
  EXPECT_THAT(plan_table("table2", o), Not(HasSubstr("not run")));
  EXPECT_THAT(plan_table("fig5b", o), HasSubstr("not run")) << "it needs the networks";
  auto again = o;
  again.train = true;
  again.runner.program = "/bin/false";  // would fail, were it started
  EXPECT_TRUE(reproduce("table2", again).failures.empty());
  EXPECT_EQ(json("table2").at("tables").dump(2), before);
  EXPECT_EQ(records("cifar10-resnet44").count("lb-s0"), 1u);
  auto other_row = o;
  other_row.train = true;
  other_row.rows = {"mnist-mlp"};
  other_row.runner.program = "/bin/false";
  EXPECT_FALSE(reproduce("table2", other_row).failures.empty());
  EXPECT_EQ(json("table2").at("tables").dump(2), before) << "training another row keeps this one";
  EXPECT_THAT(reproduce("fig2", o).table, HasSubstr("Nothing to show yet"));
  const auto kept = results() / "fig2" / "fig2.json";
  write_file_synced(kept, "{}");
  EXPECT_THAT(reproduce("fig2", o).table, HasSubstr("stays as it is"));
  EXPECT_EQ(read_file(kept), "{}");
}

/// A queue that is killed later leaves the records of the runs that have ended.
TEST_F(PaperTest, TheRecordOfARunIsKeptAsSoonAsItHasEnded) {
  auto o = options(true);
  o.rows = {"quick-glyphs-mlp"};
  o.regimes = {"sb", "lb"};
  o.runner.jobs = 1;
  std::vector<std::size_t> kept;
  o.runner.say = [&](const std::string&) { kept.push_back(records("quick-glyphs-mlp").size()); };
  reproduce("table2", o);
  EXPECT_EQ(kept, (std::vector<std::size_t>{1, 2}));
  const auto record = records("quick-glyphs-mlp").at("lb-s0");
  EXPECT_EQ(record.document("packing").at("side_by_side"), 1);
  EXPECT_TRUE(record.document("software").contains("commit"));
  for (const auto& line : record.metrics()) {
    EXPECT_EQ(line["kind"], "epoch");
    EXPECT_GT(line["weight_norm"].get<double>(), 0) << line;
  }
}

/// Two commands with one results folder: the table of one was begun before the other's run had ended.
TEST_F(PaperTest, ANewerRecordOfAnotherCommandStays) {
  auto o = options(false);
  o.train = false;
  o.rows = {"mnist-mlp"};
  o.seeds = {0};
  const auto spec = planned_runs("table2", o)[0];
  pretend(spec, 20, 0.90, 0.89);
  reproduce("table2", o);
  remove_tree(folder_.path() / "paper" / "runs");  // of the other command's machine
  const auto cells = read_cells(find_item("table2", false), o);
  auto newer = records("mnist-mlp").at("sb-s0").record({});
  newer["metrics"].back()["epoch"] = 50;
  update_records(results() / "runs/mnist-mlp.jsonl.gz", {newer});
  keep_records(cells, o);
  EXPECT_EQ(records("mnist-mlp").at("sb-s0").metrics().back()["epoch"], 50);
}

/// Earlier versions kept a folder per run in results/runs/<row>/.
TEST_F(PaperTest, RecordsOfTheEarlierFormAreReadAndKeptInTheNewOne) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0};
  const auto spec = planned_runs("table2", o)[0];
  pretend(spec, 50, 0.99, 0.97);
  const fs::path run = o.runner.out / "runs" / spec.name, earlier = results() / "runs" / spec.name;
  write_file_synced(run / "software.json", R"({"covnoise": "0.1.0"})");
  create_folders(earlier.parent_path());
  fs::rename(run, earlier);
  reproduce("table2", o);
  const auto rows = json("table2")["tables"][0]["rows"].dump();
  EXPECT_THAT(rows, HasSubstr("97.00"));
  remove_tree(earlier);
  reproduce("table2", o);
  EXPECT_EQ(json("table2")["tables"][0]["rows"].dump(), rows);
  EXPECT_EQ(records("mnist-mlp").at("sb-s0").document("software"), Json({{"covnoise", "0.1.0"}}));
}

TEST_F(PaperTest, SettingsAreNamedWhereThereAreRuns) {
  auto o = options(false);
  o.train = false;
  o.set = {"train.precision=bf16"};
  EXPECT_THAT(reproduce("table3", o).table, HasSubstr("Settings on top of the recipes: train.precision=bf16."));
  EXPECT_THAT(reproduce("fig1", o).table, Not(HasSubstr("Settings")));
  EXPECT_TRUE(json("fig1").at("settings").empty());
}

TEST_F(PaperTest, ATableOfSomeRowsInAFolderOfItsOwn) {
  auto o = options(false);
  o.train = false;
  o.recipes = folder_ / "mine";
  o.results = folder_ / "elsewhere";
  create_folders(o.recipes);
  write_file_synced(o.recipes / "mnist-lenet.toml", "model = 'lenet'\ndata = 'mnist'\n");
  const auto outcome = reproduce("table2", o);
  EXPECT_THAT(outcome.table, HasSubstr("MNIST, LeNet"));
  EXPECT_THAT(outcome.table, HasSubstr("mine: mnist-mlp, fashion-lenet,"));
  EXPECT_EQ(outcome.paths.front(), o.results / "table2" / "table2.json");
}

/// Runs with other settings do not count, so the table would lose its numbers.
TEST_F(PaperTest, ResultsOfOtherSettingsAreNotReplaced) {
  auto o = options(false);
  o.train = false;
  o.set = {"train.precision=bf16", "run.device=cuda"};
  reproduce("table3", o);
  const auto before = read_file(results() / "table3" / "table3.json");
  o.set.pop_back();
  try {
    reproduce("table3", o);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("(run.device=cuda, train.precision=bf16, not train.precision=bf16)"));
  }
  EXPECT_EQ(read_file(results() / "table3" / "table3.json"), before);
  o.set = {"run.device=cuda", "train.precision=bf16"};
  reproduce("table3", o);
}

TEST_F(PaperTest, QuickResultsDoNotReplaceFullOnes) {
  auto o = options(false);
  o.train = false;
  reproduce("table3", o);
  auto quick = options(true);
  quick.train = false;
  EXPECT_THROW(reproduce("table3", quick), Error);
}

}  // namespace
}  // namespace covnoise::paper
