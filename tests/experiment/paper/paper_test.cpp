#include "covnoise/experiment/internal/paper.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "experiment/paper/paper_fixture.h"
#include "support/paths.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

namespace covnoise::paper {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(PaperTest, AnUnknownNameListsTheKnown) {
  const auto expect = [&](const std::string& item, const Options& o, const std::string& known) {
    try {
      planned_runs(item, o);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(known));
    }
  };
  expect("table4", options(false), "fig5b");
  auto rows = options(false), regimes = options(false);
  rows.rows = {"cifar10-resnet4"};
  expect("table2", rows, "did you mean cifar10-resnet44");
  regimes.regimes = {"lb-kfak"};
  expect("table3", regimes, "did you mean lb-kfac");
  // A row that is known, but has no recipe here.
  rows.rows = {"cifar10-resnet44"};
  rows.recipes = folder_ / "mine";
  create_folders(rows.recipes);
  write_file_synced(rows.recipes / "mnist-lenet.toml", "model = 'lenet'\ndata = 'mnist'\n");
  expect("table2", rows, "there is no " + (rows.recipes / "cifar10-resnet44.toml").string());
}

TEST_F(PaperTest, ThePlanOfTable2HasEveryCellAndSeed) {
  auto o = options(false);
  EXPECT_EQ(planned_runs("table2", o).size(), 3u * (9 * 5 + 1));  // lb-full: in one row alone
  o.seeds = {7};
  o.rows = {"cifar10-resnet44"};
  o.regimes = {"sb", "lb-full"};
  o.set = {"train.momentum=0.5"};
  const auto runs = planned_runs("table2", o);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].name, "cifar10-resnet44/lb-full-s7");
  EXPECT_EQ(runs[1].config.seed, 7u);
  EXPECT_EQ(runs[1].config.train.momentum, 0.5);
  EXPECT_THAT(plan_table("table2", o), HasSubstr("not run"));
  EXPECT_FALSE(fs::exists(o.runner.out));  // a plan leaves nothing
}

/// Mean and spread over the available seeds, the paper's number beside it, and what is missing.
TEST_F(PaperTest, TablesSayWhatIsThereAndWhatIsNot) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0, 1};
  const auto runs = planned_runs("table2", o);  // seed 0: mlp's sb, lb, lb-trace, ...
  pretend(runs[0], 50, 0.99, 0.97);
  pretend(planned_runs("table2",
                       [&] {
                         auto p = o;
                         p.seeds = {5};
                         return p;
                       }())[0],
          50, 0.99, 0.98);
  pretend(runs[1], 20, 0.9, 0.9);
  pretend(runs[2], 3, 0.9, 0.9,
          R"({"kind":"diverged","step":9,"message":"nan"})"
          "\n");
  pretend(runs[3], 50, 0.99, 0.98);
  reproduce("table2", o);
  const auto rows = json("table2")["tables"][0]["rows"];
  EXPECT_EQ(rows[0].get<std::vector<std::string>>(),
            (std::vector<std::string>{"MNIST, MLP", "sb", "97.50 +- 6.35", "98.10", "2", "99.00 +- 0.00",
                                      "1.50 +- 6.35", "seed 1 not run"}));
  EXPECT_EQ(rows[1][7], "seed 0 20 of 50 epochs, seed 1 not run");
  EXPECT_EQ(rows[1][2], "-");
  EXPECT_EQ(rows[2][7], "seed 0 diverged, seed 1 not run");
  EXPECT_EQ(rows[3][7], "seed 1 not run");
  EXPECT_EQ(rows[4][7], "not run");
  EXPECT_EQ(rows.size(), 46u);
  const auto tables = json("table2")["tables"];
  const auto difference = [&](const std::string& name) {
    for (const auto& table : tables) {
      if (table["title"] == name) return table["rows"][0].get<std::vector<std::string>>();
    }
    return std::vector<std::string>{};
  };
  using Cells = std::vector<std::string>;
  EXPECT_EQ(difference("lb-diag - lb"), (Cells{"MNIST, MLP", "-", "-", "1, 0", "+0.15", "-"}));
  EXPECT_EQ(difference("lb-diag - sb"), (Cells{"MNIST, MLP", "+0.50", "-", "1, 2", "+0.00", "-"}))
      << "one seed has no interval";
  const auto kept = records("mnist-mlp");
  EXPECT_EQ(kept.count("sb-s5"), 1u);
  EXPECT_EQ(kept.count("sb-s1"), 0u);
}

/// Two rows with two seeds each, of which one difference is large: intervals, Holm's factor 2 and the pooled line.
TEST_F(PaperTest, TablesHaveIntervalsAdjustedPValuesAndAPooledLine) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0, 1};
  o.regimes = {"sb", "lb"};
  for (const auto& spec : planned_runs("table2", o)) {
    const double seed = spec.config.seed == 0 ? -0.001 : 0.001;
    if (spec.name.find("mnist-mlp/sb") == 0) pretend(spec, 50, 0.99, 0.98 + seed);
    if (spec.name.find("mnist-mlp/lb-s") == 0) pretend(spec, 50, 0.99, 0.97 + seed);
    if (spec.name.find("mnist-lenet/sb") == 0) pretend(spec, 50, 0.99, 0.97 + seed);
    if (spec.name.find("mnist-lenet/lb-s") == 0) pretend(spec, 50, 0.99, 0.97 + seed);
  }
  reproduce("table2", o);
  const auto table = json("table2")["tables"][1];
  ASSERT_EQ(table["title"], "lb - sb");
  // Each mean has the standard error 0.1, their difference sqrt 0.02 with 2 degrees of freedom: 4.303 sqrt 0.02 = 0.61.
  EXPECT_EQ(table["rows"][0][1], "-1.00 [-1.61, -0.39]");
  EXPECT_EQ(table["rows"][0][2], "0.039");  // twice 0.0194
  EXPECT_EQ(table["rows"][0][3], "2, 2");
  EXPECT_EQ(table["rows"][0][4], "-0.15");
  EXPECT_EQ(table["rows"][1][1], "+0.00 [-0.61, +0.61]");
  EXPECT_EQ(table["rows"][1][2], "1.000");
  EXPECT_EQ(table["rows"][2][1], "-");
  // Two rows at -0.5 +- 0.5: tau^2 = 0.5 - 0.02, the standard error is 0.5, t with 1 degree of freedom 12.706.
  EXPECT_EQ(table["rows"].back()[0], "pooled, 2 rows, tau 0.69");
  EXPECT_EQ(table["rows"].back()[1], "-0.50 [-6.85, +5.85]");
  const auto numbers = json("table2")["numbers"]["comparisons"][0];
  EXPECT_NEAR(numbers["rows"][0]["p_holm"].get<double>(), 0.0388, 1e-4);
  EXPECT_TRUE(numbers["rows"][2]["p_holm"].is_null());
  EXPECT_TRUE(fs::exists(results() / "table2/table2.svg"));
  EXPECT_THAT(read_file(results() / "table2/table2-forest.svg"), HasSubstr("random-effects"));
}

/// The small networks differ by 0.1, those on CIFAR by 1 and 2 points, all with two seeds.
TEST_F(PaperTest, TablesPoolTheRowsOnCifarAlone) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0, 1};
  o.regimes = {"sb", "lb"};
  const std::map<std::string, double> gaps = {
      {"mnist-mlp", 0.001}, {"mnist-lenet", 0.001}, {"cifar10-vgg16", 0.01}, {"cifar100-vgg16", 0.02}};
  const auto pretend_rows = [&](std::size_t cifar) {
    for (const auto& spec : planned_runs("table2", o)) {
      const auto gap = gaps.find(spec.name.substr(0, spec.name.find('/')));
      if (gap == gaps.end() || (cifar < 2 && gap->first == "cifar100-vgg16")) continue;
      const double seed = spec.config.seed == 0 ? -0.001 : 0.001;
      pretend(spec, spec.config.train.epochs, 0.99, 0.9 + seed - (spec.config.regime == "lb" ? gap->second : 0));
    }
    reproduce("table2", o);
    return json("table2")["notes"].get<std::vector<std::string>>();
  };
  for (const auto& note : pretend_rows(1))
    EXPECT_THAT(note, ::testing::Not(HasSubstr("CIFAR"))) << "one row is no mean";
  // -1 and -2, each with a squared error of 0.02: tau^2 = 0.5 - 0.02, the standard error is 0.5, 12.706 of it is 6.35.
  EXPECT_THAT(pretend_rows(2),
              ::testing::Contains("Pooled over the rows on CIFAR alone: lb - sb -1.50 [-7.85, +4.85] (2 rows)."));
}

/// The document and its pages are filled by one call, and what it wrote it does not change again.
TEST_F(PaperTest, DocumentsAndTheirPagesAreFilled) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0};
  for (const auto& spec : planned_runs("table2", o)) {
    if (spec.name.find("mnist-mlp/") == 0) pretend(spec, 50, 0.99, 0.98);
  }
  reproduce("table2", o);
  const auto document = folder_.path() / "docs/results.md", page = folder_.path() / "docs/results/mnist-mlp.md";
  create_folders(page.parent_path());
  write_file_synced(
      document, "Ours, `<!-- paper ... -->`.\n<!-- paper table2 summary -->\nold\n<!-- end table2 -->\nOurs, too.\n");
  write_file_synced(page, "<!-- paper table2 mnist-mlp -->\n<!-- end table2 -->\n");
  EXPECT_EQ(fill_documents(document, results()), (std::vector<fs::path>{document, page}));
  EXPECT_THAT(read_file(document), HasSubstr("| difference [95 % interval] | lb - sb | lb-trace - lb |"));
  EXPECT_THAT(read_file(document),
              HasSubstr("](../paper/results/table2/table2-forest.svg)\n<!-- end table2 -->\nOurs, too."));
  EXPECT_THAT(read_file(document), Not(HasSubstr("old")));
  EXPECT_THAT(read_file(page), HasSubstr(" | 98.00 | 98.00 | 98.10 | 99.00 |  |\n"));
  EXPECT_THAT(read_file(page), HasSubstr("| lb - sb | +0.00 | - | 1, 1 | -0.15 | - |\n"));
  EXPECT_TRUE(fill_documents(document, results()).empty());
  write_file_synced(page, "<!-- paper table2 mnist-mpl -->\n<!-- end table2 -->\n");
  EXPECT_THROW(fill_documents(document, results()), Error);
  write_file_synced(page, "<!-- paper fig2 mnist-mlp -->\n");
  EXPECT_THROW(fill_documents(document, results()), Error);
}

/// A limited time is planned with the durations of the search that a recipe comes from: its runs are elsewhere.
TEST_F(PaperTest, TheSearchOfARowTellsHowLongItsRunsTake) {
  auto o = options(false);
  std::string said;
  o.recipes = folder_ / "mine";
  o.rows = {"mnist-lenet"};
  o.regimes = {"lb"};
  o.seeds = {0};
  o.runner.program = "/bin/false";  // fails if it is started
  o.runner.minutes = 1;
  o.runner.say = [&](const std::string& line) { said += line + "\n"; };
  create_folders(o.recipes / "search");
  write_file_synced(o.recipes / "mnist-lenet.toml", "model = 'lenet'\ndata = 'mnist'\ntrain.epochs = 50\n");
  write_file_synced(o.recipes / "search" / "mnist-lenet.toml",
                    fmt::format("out = '{}'\n[[grid]]\nregime = 'lb'\n", (folder_ / "paper/runs/searched").string()));
  const auto spec = planned_runs("table2", o).at(0);
  EXPECT_EQ(reproduce("table2", o).failures.size(), 1u) << "an unknown duration: started";
  pretend({"searched/one", spec.config}, 50, 0.99, 0.98,
          R"({"kind":"epoch","step":2,"epoch":50,"test_accuracy":0.98,"seconds":58})"
          "\n");
  EXPECT_THAT(reproduce("table2", o).failures, IsEmpty());
  EXPECT_THAT(said, HasSubstr("1 of 1 runs would not end in the 1 minutes"));
}

/// Results of another ground are in a folder of their own; comparisons there may lack rows and the pooled line.
TEST_F(PaperTest, DocumentsTakeItemsFromFoldersOfTheResults) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0, 1};
  o.recipes = folder_ / "mine";
  o.results = results() / "healthy";
  create_folders(o.recipes);
  for (const char* model : {"f1", "lenet"}) {
    write_file_synced(o.recipes / (std::string("mnist-") + model + ".toml"),
                      fmt::format("model = '{}'\ndata = 'mnist'\ntrain.epochs = 50\n", model));
  }
  for (const auto& spec : planned_runs("table2", o)) {
    const bool compared = spec.config.regime == "lb-diag" || spec.config.regime == "lb";
    if (compared || (spec.config.regime == "sb" && spec.config.model == "f1"))
      pretend(spec, 50, 0.99, 0.98 + 0.001 * static_cast<double>(spec.config.seed));
  }
  reproduce("table2", o);
  const auto document = folder_ / "README.md";
  write_file_synced(document,
                    "<!-- paper healthy/table2 summary -->\n<!-- end healthy/table2 -->\n"
                    "<!-- paper healthy/table2 table -->\n<!-- end healthy/table2 -->\n"
                    "<!-- paper healthy/table2 mnist-f1 -->\n<!-- end healthy/table2 -->\n");
  fill_documents(document, results());
  const auto text = read_file(document);
  EXPECT_THAT(text,
              HasSubstr("| MNIST, F1 | +0.00 [-0.30, +0.30], paper -0.15 | -, paper +0.13 | +0.00 [-0.30, +0.30]"));
  EXPECT_THAT(text, HasSubstr("| MNIST, LeNet | -, paper -0.22 | -, paper +0.14 | +0.00 [-0.30, +0.30]"));
  EXPECT_THAT(text, HasSubstr("| pooled | - | - | +0.00 ["));
  EXPECT_THAT(text, HasSubstr("](paper/results/healthy/table2/table2-forest.svg)"));
  EXPECT_THAT(text, HasSubstr("| network | regime | test [%] |"));
  EXPECT_THAT(
      text, HasSubstr(" --recipes " + o.recipes.string() + " --results " + o.results.string() + " --rows mnist-f1\n"));
}

/// The repository's own pages have what its results say.
TEST(PaperDocuments, AreUpToDate) {
  const fs::path source = testing::source_dir();
  for (const char* document : {"README.md", "docs/results.md"}) {
    EXPECT_TRUE(fill_documents(source / document, source / "results", /*write=*/false).empty())
        << "covnoise paper docs --write " << document;
  }
}

TEST(PaperTable, KeepsItsBarsInMarkdown) {
  const Table table{"", {"|F|"}, {{"1"}}};
  EXPECT_EQ(table.to_markdown(), "| \\|F\\| |\n| --- |\n| 1 |\n");
  EXPECT_EQ(table.to_text(), "|F|\n1\n");
}

/// Interrupted at many moments: what has finished is never started again (its log is written at every start).
TEST_F(PaperTest, AnInterruptedItemRepeatsNoFinishedRun) {
  auto o = options(true);
  o.rows = {"quick-glyphs-mlp"};
  o.regimes = {"sb", "lb", "lb-diag"};
  const auto specs = planned_runs("table2", o);
  const auto log = [&](const std::string& name) { return o.runner.out / "logs" / (name + ".log"); };
  std::map<std::string, fs::file_time_type> finished;
  int interruptions = 0;
  for (int polls = 12;; polls += 9) {
    int asked = 0;
    o.runner.stop_signal = [&] { return ++asked > polls ? SIGINT : 0; };
    try {
      reproduce("table2", o);
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 130) << error.what();
      ++interruptions;
    }
    for (const auto& spec : specs) {
      const fs::path run = o.runner.out / "runs" / spec.name;
      if (!fs::exists(RunFolder{run}.metrics()) || summarize_run(run).epoch < spec.config.train.epochs) continue;
      finished.emplace(spec.name, fs::last_write_time(log(spec.name)));
    }
  }
  EXPECT_GT(interruptions, 0);
  for (const auto& [name, time] : finished) EXPECT_EQ(fs::last_write_time(log(name)), time) << name;
  o.runner.stop_signal = [] { return 0; };
  o.runner.program = "/bin/false";  // would fail, were it started
  reproduce("table2", o);
  EXPECT_EQ(json("table2")["tables"][0]["rows"][0][4], "1");
}

/// Every item from nothing, a small one: numbers, figure, configuration and versions of each run; and the same again
/// from what is kept of the runs.
class PaperItems : public PaperTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(PaperItems, IsMadeFromNothing) {
  const std::string item = GetParam();
  auto o = options(true);
  const auto& rows = find_item(item, true).rows;
  if (!rows.empty()) o.rows = {rows.front().recipe};
  const auto outcome = reproduce(item, o);
  EXPECT_THAT(outcome.table, HasSubstr("The paper: "));
  for (const char* type : {".json", ".csv", ".svg"})
    EXPECT_GT(fs::file_size(results() / item / (item + type)), 100u) << type;
  EXPECT_FALSE(fs::exists(results() / item / (item + ".png"))) << "a repetition of the SVG";
  for (const auto& spec : planned_runs(item, o)) {
    const auto record = records(fs::path(spec.name).parent_path()).at(fs::path(spec.name).filename());
    EXPECT_TRUE(difference(record.config(), spec.config).empty());
    EXPECT_FALSE(record.metrics().empty());
    EXPECT_TRUE(record.document("software").contains("commit"));
  }
  EXPECT_FALSE(json(item)["tables"][0]["rows"].empty());
  if (rows.empty()) return;
  const auto content = [&] {
    return read_file(results() / item / (item + ".csv")) + read_file(results() / item / (item + ".svg")) +
           json(item)["tables"].dump() + json(item)["notes"].dump();
  };
  const auto before = content();
  remove_tree(o.runner.out / "runs");
  remove_tree(results() / item);
  o.train = false;
  reproduce(item, o);
  EXPECT_EQ(content(), before);
}

INSTANTIATE_TEST_SUITE_P(All, PaperItems, ::testing::ValuesIn(item_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace covnoise::paper
