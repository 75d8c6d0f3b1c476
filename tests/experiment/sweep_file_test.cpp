#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/sweep.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SweepFileTest : public ::testing::Test {
 protected:
  std::optional<SweepFile> read(const std::string& text) {
    write_file_synced(folder_ / "sweep.toml", text);
    return read_sweep_file(folder_ / "sweep.toml");
  }
  std::string error(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  testing::TemporaryFolder folder_;
};

/// The text of numbers and the order of keys are kept: the names of the runs contain both.
TEST_F(SweepFileTest, IsWhatTheCommandLineWouldSay) {
  const auto file = read(R"(recipe = "../mlp.toml"
out = "runs/search"
table = "results/search.csv"
[set]
train = {eval_train = "never", milestones = [0.5, 0.75]}
data.holdout = 5000
[vary]
seed = [0, 1]
[[grid]]
regime = ["sb", "lb-diag"]
train = {weight_decay = 5e-4, lr = [0.050, 1e-1]}
noise.stop_after = 0.25
[[grid]]
data = "glyphs"
train.batch_schedule = [[[0.25, 128, 0.8]],
                        [[0.25, 128, 1.6]]]
train.nesterov = true
)");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->options.recipe, folder_.path() / "../mlp.toml");
  EXPECT_EQ(file->out, "runs/search");
  EXPECT_EQ(file->table, "results/search.csv");
  EXPECT_THAT(file->options.set,
              ElementsAre("train.eval_train=never", "train.milestones=[0.5,0.75]", "data.holdout=5000"));
  EXPECT_THAT(file->options.vary, ElementsAre("seed=0,1"));
  EXPECT_THAT(file->options.grids,
              ElementsAre("regime=sb,lb-diag train.weight_decay=5e-4 train.lr=0.050,1e-1 noise.stop_after=0.25",
                          "data=glyphs train.batch_schedule=[[0.25,128,0.8]],[[0.25,128,1.6]] train.nesterov=true"));
}

/// Also with brackets, quotes and backslashes; every text arrives in the configuration.
TEST_F(SweepFileTest, CanVaryListsOfTexts) {
  const auto file = read(R"([set]
model = "mlp"
data = "glyphs"
[[grid]]
train.no_decay = [["*.bias", "*bn*"], [], ['a"]b\', "it's"]]
)");
  ASSERT_TRUE(file);
  EXPECT_THAT(file->options.grids, ElementsAre(R"(train.no_decay=["*.bias","*bn*"],[],["a\"]b\\","it's"])"));
  const auto points = sweep_points(file->options);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_THAT(points[0].runs.front().config.train.no_decay, ElementsAre("*.bias", "*bn*"));
  EXPECT_THAT(points[1].runs.front().config.train.no_decay, ElementsAre());
  EXPECT_THAT(points[2].runs.front().config.train.no_decay, ElementsAre("a\"]b\\", "it's"));
  EXPECT_THAT(error("[set]\ntrain.no_decay = [\"*.bias\"]\n"), "no error");
  EXPECT_THAT(error("[vary]\ntrain.no_decay = [[\"a b\"]]\n"), HasSubstr("contain a comma or a space"));
}

TEST_F(SweepFileTest, CountsColumnsInCharacters) {
  const auto file = read("vary = {model = [\"\u00fc\u00fc\"], train.lr = [5e-4]}\n");
  ASSERT_TRUE(file);
  EXPECT_THAT(file->options.vary, ElementsAre("model=\u00fc\u00fc", "train.lr=5e-4"));
}

TEST_F(SweepFileTest, IsTakenForARecipeWithoutItsKeys) { EXPECT_FALSE(read("model = \"mlp\"\n[train]\nlr = 0.1\n")); }

TEST_F(SweepFileTest, RefusesMistakesWithTheirPlace) {
  EXPECT_THAT(error("recipe = 3\n"), HasSubstr("sweep.toml:1:10: recipe must be text in quotes"));
  EXPECT_THAT(error("recipe = \"a.toml\"\n[[grids]]\n"),
              HasSubstr("sweep.toml:2:3: unknown key grids (did you mean grid?)"));
  EXPECT_THAT(error("[grid]\ntrain.lr = 0.1\n"), HasSubstr("write each grid as [[grid]]"));
  EXPECT_THAT(error("[[grid]]\ntrain.lrr = 0.1\n"), HasSubstr("unknown key train.lrr (did you mean train.lr?)"));
  EXPECT_THAT(error("[vary]\ntrain.lr = []\n"), HasSubstr("sweep.toml:2:12: train.lr needs at least one value"));
  EXPECT_THAT(error("[vary]\nmodel = [\"a,b\"]\n"), HasSubstr("must not be empty or contain a comma or a space"));
  EXPECT_THAT(error("[vary\n"), HasSubstr("sweep.toml:1:"));
}

/// The saved tables of the paper's searches have every planned run: changed values or names would be missing there.
TEST(PaperSearch, PlansWhatTheSavedTablesHave) {
  const fs::path root = testing::source_dir();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(root / "recipes/paper/search")) {
    const auto file = read_sweep_file(entry.path()).value();
    EXPECT_EQ(file.table.stem(), entry.path().stem());
    EXPECT_THAT(sweep_plan(sweep_points(file.options), "none", root / file.table), HasSubstr(" settings, all in "))
        << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 9);
}

}  // namespace
}  // namespace covnoise
