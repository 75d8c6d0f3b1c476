#include "covnoise/core/internal/file.h"
#include "covnoise/train/run_summary.h"
#include "support/program.h"

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SweepCommand : public testing::ProgramFixture {
 protected:
  SweepCommand() : ProgramFixture({"sweep"}) {}
};

TEST_F(SweepCommand, PlansWithoutTraining) {
  const auto out = folder_ / "sweep";
  const auto [code, output] = run(
      {"--set", "data=glyphs", "--vary", "train.lr=0.1,0.2", "--vary", "seed=0,1", "--plan", "--out", out.string()});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, HasSubstr("4 runs"));
  EXPECT_THAT(output, HasSubstr("lr0.2-s1"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

/// Short options are settings of all runs; --set and --vary come after them.
TEST_F(SweepCommand, TakesShortOptions) {
  const auto out = folder_ / "sweep";
  ASSERT_EQ(run({"--model",  "mlp",
                 "--data",   "glyphs",
                 "--epochs", "1",
                 "--regime", "lb",
                 "--batch",  "64",
                 "--lr",     "0.01",
                 "--set",    "train.batch=32",
                 "--set",    "data.train_limit=64",
                 "--set",    "data.test_limit=50",
                 "--vary",   "seed=0,1",
                 "--out",    out.string()})
                .code,
            0);
  for (const auto& run : find_runs(out, [](const std::string& line) { ADD_FAILURE() << line; })) {
    EXPECT_EQ(run.config.model, "mlp");
    EXPECT_EQ(run.config.regime, "lb");
    EXPECT_EQ(run.config.train.batch, 32);
    EXPECT_EQ(run.config.train.lr, 0.01);
    EXPECT_EQ(run.epoch, 1);
  }
  EXPECT_TRUE(std::filesystem::exists(out / "logs"));
}

/// A sweep file plans, trains and collects; its table keeps the line of a run that is no longer there.
TEST_F(SweepCommand, ReadsASweepFile) {
  const auto file = folder_ / "search.toml", out = folder_ / "out", table = folder_ / "tables" / "search.csv";
  write_file_synced(folder_ / "base.toml", "model = \"mlp\"\n[data]\nname = \"glyphs\"\n");
  write_file_synced(file,
                    "recipe = \"base.toml\"\nout = \"" + out.string() + "\"\ntable = \"" + table.string() +
                        "\"\n[set]\ndata = {train_limit = 64, test_limit = 50, holdout = 32}\ntrain = {epochs = 1, "
                        "batch = 32}\n[[grid]]\nregime = [\"sb\", \"lb\"]\ntrain.lr = 1e-2\n");
  EXPECT_THAT(run({file.string(), "--plan", "--only", "regime=lb"}).output,
              ::testing::AllOf(HasSubstr("1 run\n"), HasSubstr("regimelb-lr1e-2")));
  ASSERT_EQ(run({file.string(), "--collect"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(table)) << "no run has ended";
  ASSERT_EQ(run({file.string(), "--only", "regime=sb"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(table));
  ASSERT_EQ(run({file.string(), "--collect"}).code, 0);
  EXPECT_THAT(read_file(table), ::testing::AllOf(HasSubstr("\nsb,"), Not(HasSubstr("\nlb,"))));
  ASSERT_EQ(run({file.string()}).code, 0);
  ASSERT_EQ(run({file.string(), "--collect"}).code, 0);
  const std::string saved = read_file(table);
  EXPECT_THAT(saved, HasSubstr("\nlb,"));
  ASSERT_TRUE(remove_tree(out / "runs" / "regimesb-lr1e-2"));
  ASSERT_EQ(run({file.string(), "--collect"}).code, 0);
  EXPECT_EQ(read_file(table), saved);
  ASSERT_EQ(run({file.string()}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(out / "runs" / "regimesb-lr1e-2")) << "the table has it";
  expect_one_line({file.string(), "--collect", "--only", "regime=lb"}, "would remove the other lines");
}

TEST_F(SweepCommand, RefusesInOneLine) {
  expect_one_line({}, "at least one --vary");
  expect_one_line({"--vary", "train.lrr=1", "--plan"}, "train.lr");
  expect_one_line({(folder_ / "none.toml").string(), "--vary", "train.lr=1"}, "none.toml");
}

}  // namespace
}  // namespace covnoise
