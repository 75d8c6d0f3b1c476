#include "experiment/paper/variants.h"

#include "covnoise/core/error.h"
#include "experiment/paper/paper_fixture.h"

#include <gmock/gmock.h>

namespace covnoise::paper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class VariantsTest : public PaperTest {
 protected:
  Options with_variants(const std::string& text) {
    auto o = options(false);
    o.recipes = folder_ / "mine";
    create_folders(o.recipes / "variants");
    write_file_synced(o.recipes / "mnist-f1.toml", "model = 'f1'\ndata = 'mnist'\ntrain.epochs = 50\n");
    write_file_synced(o.recipes / "variants" / "some.toml", text);
    o.train = false;
    return o;
  }
  /// Those of F1 on MNIST, among two rows.
  std::vector<Variant> read(const std::string& text, const std::string& of = "mnist-f1") {
    std::vector<Row> rows = {{"mnist-lenet", ""}, {"mnist-f1", ""}};
    add_variants(rows, {"mnist-lenet", "mnist-f1", "cifar10-c1"}, with_variants(text).recipes);
    return of == "mnist-f1" ? rows[1].variants : rows[0].variants;
  }
  /// Finished runs with these test accuracies by seed, of the rows and regimes "row/regime".
  void pretend_all(const Options& o, const std::map<std::string, std::vector<double>>& tests) {
    auto specs = planned_runs("variants", o);
    const auto small = planned_runs("table2", o);
    specs.insert(specs.end(), small.begin(), small.end());
    for (const auto& spec : specs) {
      const auto found = tests.find(spec.name.substr(0, spec.name.rfind("-s")));
      if (found != tests.end() && spec.config.seed < found->second.size())
        pretend(spec, 50, 0.99, found->second[spec.config.seed]);
    }
  }
};

constexpr const char* kTwice =
    "rows = ['mnist-f1', 'mnist-lenet']\n[lb-diag-x2]\nregime = 'lb-diag'\nnoise.scale = 2.0\n";

TEST_F(VariantsTest, AreTheTablesOfTheFileInItsOrder) {
  const auto variants = read(
      "rows = ['mnist-f1']\n"
      "[z]\nregime = 'lb-diag'\nnoise = {placement = 'gradient', scale = 2}\n"
      "[a]\nregime = 'batch-change'\ntrain.batch_schedule = [[2, 4096, 1.6]]\n"
      "train.no_decay = ['*.bias', '*bn*']\n");
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[0].name, "z");
  EXPECT_EQ(variants[0].regime, "lb-diag");
  EXPECT_THAT(variants[0].settings, ElementsAre("noise.placement=gradient", "noise.scale=2"));
  EXPECT_THAT(variants[1].settings,
              ElementsAre("train.batch_schedule=[[2, 4096, 1.6]]", R"(train.no_decay=["*.bias", "*bn*"])"));
  const auto o = with_variants(read_file(folder_ / "mine/variants/some.toml"));
  const auto runs = planned_runs("variants", [&] {
    auto of_seed = o;
    of_seed.seeds = {4};
    of_seed.regimes = {"z", "a"};
    return of_seed;
  }());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "mnist-f1/z-s4");
  EXPECT_EQ(runs[0].config.regime, "lb-diag");
  EXPECT_EQ(runs[0].config.noise.scale.factor, 2);
  EXPECT_EQ(runs[0].config.noise.placement, Placement::kGradient);
  EXPECT_EQ(runs[1].config.train.batch_schedule.at(0).epoch, 2);
  EXPECT_EQ(runs[1].config.train.batch_schedule.at(0).lr, 1.6);
  EXPECT_THAT(runs[1].config.train.no_decay, ElementsAre("*.bias", "*bn*"));
}

TEST_F(VariantsTest, BelongToTheRowsThatTheirFileLists) {
  const std::string f1 = "rows = ['mnist-f1', 'cifar10-c1']\n[x]\nregime = 'lb'\ntrain.lr = 2\n";
  EXPECT_EQ(read(f1).size(), 1u);
  EXPECT_TRUE(read(f1, "mnist-lenet").empty());
  EXPECT_EQ(read(kTwice, "mnist-lenet").size(), 1u);
  // Files in the order of their names.
  const auto folder = folder_ / "mine/variants";
  write_file_synced(folder / "a.toml", "rows = ['mnist-f1']\n[y]\nregime = 'lb'\ntrain.lr = 2\n");
  write_file_synced(folder / "notes.txt", "not a file of variants");
  EXPECT_EQ(read(f1).front().name, "y");
  EXPECT_EQ(read(f1).back().name, "x");
  write_file_synced(folder / "a.toml", "rows = ['mnist-f1']\n[x]\nregime = 'lb'\ntrain.lr = 3\n");
  EXPECT_THAT([&] { read(f1); }, ThrowsMessage<Error>(HasSubstr("some.toml: mnist-f1 has another variant [x]")));
}

TEST_F(VariantsTest, ThatSayTooLittleAreRefused) {
  const auto refused = [&](const std::string& text, const std::string& why) {
    EXPECT_THAT([&] { read("rows = ['mnist-f1']\n" + text); }, ThrowsMessage<Error>(HasSubstr(why))) << text;
  };
  refused("[lb-diag]\nregime = 'lb-diag'\nnoise.scale = 2\n", "that no regime has");
  refused("['a/b']\nregime = 'lb-diag'\nnoise.scale = 2\n", "letters, digits");
  refused("[x]\nnoise.scale = 2\n", "[x] must be a table with a regime");
  refused("x = 1\n", "[x] must be a table with a regime");
  refused("[x]\nregime = 'lb-dia'\nnoise.scale = 2\n", "did you mean lb-diag");
  refused("[x]\nregime = 'lb-diag'\n", "sets nothing");
  refused("[x\n", "some.toml:2:");
  for (const char* rows : {"", "rows = []\n", "rows = 'mnist-f1'\n", "rows = [1]\n"}) {
    EXPECT_THAT([&] { read(std::string(rows) + "[x]\nregime = 'lb'\ntrain.lr = 2\n"); },
                ThrowsMessage<Error>(HasSubstr("some.toml: begin it with the rows")))
        << rows;
  }
  EXPECT_THAT([&] { read("rows = ['mnist-f2']\n"); },
              ThrowsMessage<Error>(HasSubstr("unknown row mnist-f2 (did you mean mnist-f1?)")));
  const auto misspelt = with_variants("rows = ['mnist-f1']\n[x]\nregime = 'lb'\nnoise.scal = 2\n");
  EXPECT_THROW(planned_runs("variants", misspelt), Error);
}

/// The numbers of lb-diag - lb on the first row of comparisons_test.cpp; Holm's factor is 2, of two compared regimes.
TEST_F(VariantsTest, AreComparedWithTheLargeBatch) {
  auto o = with_variants(kTwice);
  const std::map<std::string, std::vector<double>> tests = {{"mnist-f1/lb-diag-x2", {0.9810, 0.9824, 0.9831}},
                                                            {"mnist-f1/lb-trace", {0.9790, 0.9806, 0.9795}},
                                                            {"mnist-f1/lb", {0.9790, 0.9806, 0.9795}}};
  for (const auto& spec : planned_runs("variants", o)) {
    const auto found = tests.find(spec.name.substr(0, spec.name.rfind("-s")));
    if (found == tests.end()) continue;
    pretend(spec, 50, 0.99, found->second[spec.config.seed]);
    auto text = read_file(folder_ / "paper/runs" / spec.name / "metrics.jsonl");
    text.replace(text.rfind('}'), 1, R"(,"weight_norm":12.25})");
    write_file_synced(folder_ / "paper/runs" / spec.name / "metrics.jsonl", text);
  }
  reproduce("variants", o);
  std::map<std::string, std::vector<std::string>> rows;
  const auto table = json("variants")["tables"][0];
  for (const auto& row : table["rows"]) rows[row[1]] = row.get<std::vector<std::string>>();
  EXPECT_THAT(rows["lb-diag-x2"], ElementsAre("", "lb-diag-x2", "98.22 +- 0.27", "3", "+0.25 [+0.02, +0.47]", "0.074",
                                              "12.2", "lb-diag: noise.scale=2", ""));
  EXPECT_EQ(rows["lb-trace"][4], "+0.00 [-0.19, +0.19]");
  EXPECT_EQ(rows["lb-trace"][5], "1.000");
  EXPECT_EQ(rows["lb"][4], "-");
  EXPECT_EQ(rows.count("lb-kfac"), 0u) << "it is in the note";
  EXPECT_THAT(json("variants")["notes"].get<std::vector<std::string>>(),
              ::testing::Contains(::testing::MatchesRegex("Not run: MNIST, F1: lb-diag, .*lb-kfac, .*batch-change.")));
  EXPECT_EQ(json("variants")["tables"].size(), 1u) << "nothing to pool over one row";
  EXPECT_NEAR(json("variants")["numbers"]["cells"][0]["weight_norm"]["mean"].get<double>(), 12.25, 1e-12);
  const auto figure = read_file(results() / "variants/variants.svg");
  EXPECT_THAT(figure, HasSubstr("lb-diag-x2 (3, 3)"));
  EXPECT_THAT(figure, ::testing::Not(HasSubstr("lb-kfac"))) << "which has not been trained";
  EXPECT_THAT(figure, ::testing::Not(HasSubstr("random-effects"))) << "it has no pooled difference";
}

/// Noise for a quarter of 50 epochs: 12 had it throughout, and the highest of the losses of the two after them counts.
/// lb-trace and lb-diag-x2 have warnings that the program wrote: of a loss above that of guessing, and of the noise.
TEST_F(VariantsTest, WhoseTrainingIsNotHealthyAreRemarked) {
  auto o = with_variants(kTwice);
  o.seeds = {0};
  const std::map<std::string, std::pair<double, double>> losses = {
      {"lb", {0.9, 0.1}},  // of epochs 13 and 14; 0.5 before
      {"lb-trace", {0.4, 0.4}},
      {"lb-diag", {0.6, 0.55}},
      {"lb-diag-x2", {0.6, 1.25}}};
  const std::map<std::string, std::string> about = {{"lb-trace", "loss"}, {"lb-diag-x2", "noise"}};
  for (const auto& spec : planned_runs("variants", o)) {
    const auto regime = std::filesystem::path(spec.name).filename().string();
    const auto found = losses.find(regime.substr(0, regime.rfind("-s")));
    if (found == losses.end()) continue;
    pretend(spec, 50, 0.99, 0.98);
    std::string metrics;
    for (int epoch = 1; epoch <= 50; ++epoch) {
      const double loss = epoch == 13 ? found->second.first : epoch == 14 ? found->second.second : 0.5;
      metrics += fmt::format(R"({{"kind":"epoch","step":{},"epoch":{},"train_loss":{},"test_accuracy":0.98}})",
                             12 * epoch, epoch, loss) +
                 "\n";
      const auto warning = about.find(found->first);
      if (epoch == 14 && warning != about.end())
        metrics += R"({"kind":"warning","step":168,"epoch":14,"about":")" + warning->second + "\"}\n";
    }
    write_file_synced(folder_ / "paper/runs" / spec.name / "metrics.jsonl", metrics);
  }
  reproduce("variants", o);
  std::map<std::string, std::string> remarks;
  const auto table = json("variants")["tables"][0];
  for (const auto& row : table["rows"]) remarks[row[1]] = row.back();
  EXPECT_EQ(remarks["lb"], "");
  EXPECT_EQ(remarks["lb-diag"], "");
  EXPECT_EQ(remarks["lb-trace"], "loss above guessing with seed 0");
  EXPECT_EQ(remarks["lb-diag-x2"], "loss rises 2.5 times when the noise ends");
}

TEST_F(VariantsTest, ArePooledOverRows) {
  auto o = with_variants(kTwice);
  write_file_synced(o.recipes / "mnist-lenet.toml", "model = 'lenet'\ndata = 'mnist'\ntrain.epochs = 50\n");
  o.seeds = {0, 1};
  o.regimes = {"lb", "lb-diag-x2"};
  for (const auto& spec : planned_runs("variants", o)) {
    const double row = spec.config.model == "f1" && spec.name.find("/lb-s") == std::string::npos ? 0.01 : 0;
    pretend(spec, 50, 0.99, 0.97 + row + (spec.config.seed == 0 ? -0.001 : 0.001));
  }
  reproduce("variants", o);
  const auto pooled = json("variants")["tables"][1];
  EXPECT_EQ(pooled["title"], "pooled over rows");
  // As in TablesHaveIntervalsAdjustedPValuesAndAPooledLine, with the other sign.
  EXPECT_EQ(pooled["rows"][0][0], "lb-diag-x2");
  EXPECT_EQ(pooled["rows"][0][1], "+0.50 [-5.85, +6.85]");
  EXPECT_EQ(pooled["rows"][0][3], "2");
}

/// The best large batch is the best of those with three seeds; what is not measured is said.
TEST_F(VariantsTest, OfTheLargeBatchCanBeTheHeadline) {
  auto o = with_variants(kTwice);
  EXPECT_TRUE(planned_runs("headline", o).empty()) << "it trains nothing";
  pretend_all(o, {{"mnist-f1/sb", {0.982, 0.984}},
                  {"mnist-f1/lb", {0.978, 0.980, 0.979}},
                  {"mnist-f1/lb-diag-x2", {0.981, 0.983, 0.982}},
                  {"mnist-f1/lb-diag", {0.998, 0.998}},
                  {"mnist-f1/lb-trace", {0.999}}});
  const auto printed = reproduce("headline", o).table;
  EXPECT_THAT(printed, HasSubstr("Trained on: cpu."));
  EXPECT_THAT(printed,
              HasSubstr("Higher means of fewer seeds: MNIST, F1: lb-trace 99.90 (1); MNIST, F1: lb-diag 99.80 "));
  const auto rows = json("headline")["tables"][0]["rows"];
  EXPECT_THAT(rows[0].get<std::vector<std::string>>(),
              ElementsAre("MNIST, F1", "98.30 +- 1.27 (2)", "-", "lb-diag-x2", "98.20 +- 0.25 (3)", "-",
                          "-0.10 [-0.70, +0.50]", "0.492", "+0.00"));
  EXPECT_THAT(rows[1].get<std::vector<std::string>>(),
              ElementsAre("MNIST, LeNet", "not measured", "-", "-", "not measured", "-", "-", "-", "+0.01"));
  EXPECT_EQ(rows.size(), 9u);
}

/// The sums of the same three numbers differ by rounding, which must not decide.
TEST_F(VariantsTest, WithEqualMeansAreRankedBySeedsThenInTheOrderOfTheRecipes) {
  const auto o = with_variants(kTwice);
  const auto best = [&] {
    reproduce("headline", o);
    return json("headline")["tables"][0]["rows"][0][3].get<std::string>();
  };
  const std::vector<double> one = {0.9931, 0.9936, 0.9934}, same = {0.9931, 0.9932, 0.9938};
  pretend_all(o, {{"mnist-f1/lb-diag", one}, {"mnist-f1/lb-diag-x2", same}});
  EXPECT_EQ(best(), "lb-diag");
  pretend_all(o, {{"mnist-f1/lb-diag", same}, {"mnist-f1/lb-diag-x2", one}});
  EXPECT_EQ(best(), "lb-diag");
  auto more = o;
  more.seeds = {0, 1, 2, 3};
  const double mean = (0.9931 + 0.9932 + 0.9938) / 3;
  pretend_all(more, {{"mnist-f1/lb-diag-x2", {0.9931, 0.9932, 0.9938, mean}}});
  EXPECT_EQ(best(), "lb-diag-x2");
}

/// Seconds of the runs that had the device to themselves come before those of bench/alone.py; others compare with
/// nothing.
TEST_F(VariantsTest, InTheHeadlineHaveTheSecondsOfRunsThatWereAlone) {
  auto o = with_variants(kTwice);
  o.seeds = {0, 1, 2};
  const std::vector<double> tests = {0.981, 0.983, 0.982};
  pretend_all(o, {{"mnist-f1/sb", tests}, {"mnist-f1/lb-diag-x2", tests}});
  const auto with_seconds = [&](const std::string& run, double seconds, const char* packing) {
    const RunFolder folder{folder_ / "paper/runs/mnist-f1" / run};
    auto text = read_file(folder.metrics());
    text.replace(text.rfind('}'), 1, fmt::format(",\"seconds\":{}}}", seconds));
    write_file_synced(folder.metrics(), text);
    write_file_synced(folder.root / "packing.json", packing);
  };
  with_seconds("lb-diag-x2-s0", 10, R"({"side_by_side": 2})");
  with_seconds("lb-diag-x2-s1", 10, R"({"side_by_side": 1, "mps_percentage": "60"})");
  with_seconds("lb-diag-x2-s2", 6, R"({"side_by_side": 1})");
  with_seconds("sb-s0", 40, R"({"side_by_side": 2})");
  const auto seconds = [&] {
    reproduce("headline", o);
    const auto row = json("headline")["tables"][0]["rows"][0];
    return row[2].get<std::string>() + ", " + row[5].get<std::string>();
  };
  EXPECT_EQ(seconds(), "-, 6");
  write_file_synced(results() / "alone.csv", "row,regime,seconds\nmnist-f1,sb,30.7\nmnist-f1,lb-diag-x2,7\n");
  EXPECT_EQ(seconds(), "~31, 6");
  write_file_synced(results() / "alone.csv", "row,regime,seconds\nmnist-f1,sb,fast\n");
  EXPECT_THAT([&] { reproduce("headline", o); },
              ThrowsMessage<Error>(HasSubstr("alone.csv: 'fast' is not a number of seconds")));
}

}  // namespace
}  // namespace covnoise::paper
