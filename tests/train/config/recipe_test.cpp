#include "covnoise/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

class RecipeTest : public ::testing::Test {
 protected:
  Config load(const std::string& recipe, const std::vector<std::string>& overrides = {}) {
    write_file_synced(folder_ / "r.toml", recipe);
    return load_config(folder_ / "r.toml", overrides);
  }
  /// The message of the error, without the folder.
  std::string error(const std::string& recipe, const std::vector<std::string>& overrides = {}) {
    try {
      load(recipe, overrides);
    } catch (const Error& error) {
      const std::string text = error.what(), folder = folder_.path().string() + "/";
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text.compare(0, folder.size(), folder) == 0 ? text.substr(folder.size()) : text;
    }
    return "no error";
  }
  TemporaryFolder folder_;
};

TEST_F(RecipeTest, LaterSourcesWin) {
  const std::string recipe = R"(
regime = "lb"
[train]
lr = 0.3
epochs = 7
momentum = 0.8
[regimes.lb]
train.lr = 0.4
train.epochs = 8
[regimes.sb.train]
batch = 64
)";
  const auto lb = load(recipe, {"train.epochs=9", "train.epochs = 11"});
  EXPECT_EQ(lb.regime, "lb");
  EXPECT_EQ(lb.train.batch, 4096);
  EXPECT_EQ(lb.train.momentum, 0.8);
  EXPECT_EQ(lb.train.lr, 0.4);
  EXPECT_EQ(lb.train.epochs, 11);
  EXPECT_EQ(lb.train.weight_decay, 5e-4);
  const auto sb = load(recipe, {"regime=sb"});
  EXPECT_EQ(sb.regime, "sb");
  EXPECT_EQ(sb.train.batch, 64);
  EXPECT_EQ(sb.train.lr, 0.3);
}

TEST_F(RecipeTest, TheRecipesOwnKeysWinOverTheRegimes) {
  EXPECT_EQ(load("train.batch = 2048", {"regime=lb-diag"}).train.batch, 2048);
  EXPECT_EQ(load("noise.structure = 'kfac'", {"regime=lb-diag"}).noise.structure, "kfac");
}

/// Keys that a schedule would ignore are not ignored: they name the schedule.
TEST_F(RecipeTest, MilestonesAndDecayReplaceTheRegimesCosine) {
  EXPECT_EQ(load("train.milestones = [0.5, 0.75]", {"regime=lb"}).train.schedule, "step");
  EXPECT_EQ(load("train.decay = 0.1", {"regime=lb"}).train.schedule, "step");
  EXPECT_EQ(load("", {"regime=lb", "train.milestones=[3]"}).train.schedule, "step");
  EXPECT_EQ(load("[regimes.lb.train]\nmilestones = [3]", {"regime=lb"}).train.schedule, "step");
  const auto other = load("train.epochs = 3", {"regime=lb"});
  EXPECT_EQ(other.train.schedule, "cosine");
  EXPECT_THAT(other.train.milestones, ElementsAre(0.5, 0.75));
  EXPECT_EQ(other.train.decay, 0.1);
  EXPECT_EQ(load("train.schedule = 'cosine'\ntrain.milestones = [3]", {"regime=lb"}).train.schedule, "cosine");
}

TEST_F(RecipeTest, DataIsShortForItsName) {
  EXPECT_EQ(load("data = 'mnist'").data.name, "mnist");
  for (const char* both :
       {"data = 'mnist'\n[data]\nholdout = 3", "data.holdout = 3\ndata = 'mnist'", "data = 'mnist'\ndata.holdout = 3",
        "[regimes.lb]\ndata = 'mnist'\n[regimes.lb.data]\nholdout = 3"})
    EXPECT_THAT(error(both),
                HasSubstr("data = \"NAME\" is short for name = \"NAME\" in [data]: write only the latter"));
  EXPECT_THAT(error("data = 'mnist'\n[train]\nlr = 1\nlr = 2"), Not(HasSubstr("is short for")));
  const auto config = load("[data]\nname = 'cifar10'\nholdout = 5000");
  EXPECT_EQ(config.data.name, "cifar10");
  EXPECT_EQ(config.data.holdout, 5000);
}

TEST_F(RecipeTest, RefusesWithFileLineAndColumn) {
  EXPECT_THAT(error("[train]\nlrr = 1\n"),
              HasSubstr("r.toml:2:1: unknown key train.lrr (did you mean train.lr?); known: "
                        "train.batch, train.epochs, train.lr, "));
  EXPECT_THAT(error("[train]\n\nlr = 'x'\n"), HasSubstr("r.toml:3:6: train.lr must be a number"));
  EXPECT_THAT(error("train.batch = 1.5"), HasSubstr("r.toml:1:15: train.batch must be a whole number"));
  EXPECT_THAT(error("train.batch = -4"), HasSubstr("r.toml:1:15: train.batch = -4: must be at least 1"));
  EXPECT_THAT(error("train.lr = nan"), HasSubstr("train.lr = nan: must be finite and at least 0"));
  EXPECT_THAT(error("train.lr = inf"), HasSubstr("train.lr = inf: must be finite and at least 0"));
  EXPECT_THAT(error("train.milestones = [inf]"), HasSubstr("must be finite and at least 0"));
  EXPECT_THAT(error("train.momentum = 1"), HasSubstr("must be at least 0 and below 1"));
  EXPECT_THAT(error("train.schedule = 'sine'"), HasSubstr("must be one of step, cosine, constant"));
  EXPECT_THAT(error("train.batch_schedule = [[1, 2]]"), HasSubstr("must be a list of [epoch, batch, lr]"));
  EXPECT_THAT(error("train.batch_schedule = [[-1, 2, 1]]"),
              HasSubstr("must be epochs and learning rates of at least 0"));
  EXPECT_THAT(error("\n[train\n"), HasSubstr("r.toml:2:"));
  EXPECT_THAT(error("train = 3"), HasSubstr("r.toml:1:1: unknown key train; known: train.batch"));
  EXPECT_THAT(error("modle = 'x'"),
              AllOf(HasSubstr("r.toml:1:1: unknown key modle (did you mean model?)"), HasSubstr("noise.structure")));
  EXPECT_THAT(error("train.lr.x = 3"), HasSubstr("train.lr must be a number"));
  EXPECT_THAT(error("seed = -1"), HasSubstr("seed must be a whole number from 0"));
}

TEST_F(RecipeTest, RefusesWhatTomlForbidsBeforeItIsParsed) {
  EXPECT_THAT([&] { load_recipe("[\x18", "r.toml", {}); },
              ThrowsMessage<Error>(HasSubstr("r.toml:1:2: a control character")));
  EXPECT_THAT([&] { load_recipe("tra\xc3\xa4n = 1", "r.toml", {}); },
              ThrowsMessage<Error>(HasSubstr("r.toml:1:4: a character that must be in quotes")));
  EXPECT_THAT([&] { load_config({}, {"train.lr=0.1\xc3\xa4"}); },
              ThrowsMessage<Error>(HasSubstr("setting train.lr=0.1\xc3\xa4: bad TOML")));
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_THAT([&] { load_recipe(key + " = 1", "r.toml", {}); },
              ThrowsMessage<Error>(HasSubstr("r.toml:1:66: a key of too many parts")));
}

TEST_F(RecipeTest, RefusesBadRegimes) {
  EXPECT_THAT(error("regime = 'lbb'"),
              HasSubstr("r.toml:1:10: unknown regime lbb (did you mean lb?); known: sb, lb, "));
  EXPECT_THAT(error("", {"regime=lbb"}), HasSubstr("unknown regime lbb"));
  EXPECT_THAT(error("regime = 4"), HasSubstr("regime must be text"));
  EXPECT_THAT(error("[regimes.lc]"), HasSubstr("r.toml:1:10: unknown regime lc"));
  EXPECT_THAT(error("[regimes.lb]\ntrain.lrr = 1"), HasSubstr("r.toml:2:7: unknown key train.lrr"));
  EXPECT_THAT(error("[regimes.lb]\nregime = 'sb'"), HasSubstr("regime cannot be set in [regimes.lb]"));
  EXPECT_THAT(error("regimes = 1"), HasSubstr("regimes must be a table"));
}

TEST_F(RecipeTest, RefusesBadSettings) {
  EXPECT_THAT(error("", {"train.lr"}), HasSubstr("setting train.lr: must be KEY=VALUE"));
  EXPECT_THAT(error("", {"=1"}), HasSubstr("must be KEY=VALUE"));
  EXPECT_THAT(error("", {"train.lrr=1"}), HasSubstr("setting train.lrr=1: unknown key train.lrr"));
  EXPECT_THAT(error("", {"train.lr=fast"}), HasSubstr("setting train.lr=fast: train.lr must be a number"));
  EXPECT_THAT(error("", {"train.lr=1\nmodel=2"}), HasSubstr("must be one line"));
  EXPECT_THAT(error("", {"seed=18446744073709551616"}), HasSubstr("seed must be a whole number"));
  EXPECT_THAT(error("", {"noise.match_schedule=steps"}), HasSubstr("must be empty or one of step, cosine, constant"));
}

TEST_F(RecipeTest, RefusesBrokenGhostBatches) {
  const std::string normalised = "model = 'resnet8'";
  EXPECT_EQ(error(normalised, {"train.batch=200"}),
            "r.toml with the settings given: train.batch = 200 is not a whole number of ghost batches "
            "(train.ghost_batch = 128); choose a multiple of it, or set train.ghost_batch to a divisor of the batch");
  EXPECT_THAT(error(normalised, {"train.batch=1024", "train.micro_batch=192"}),
              HasSubstr("train.micro_batch = 192 is not"));
  EXPECT_THAT(error(normalised, {"train.batch=1024", "train.ghost_batch=0", "train.micro_batch=256"}),
              HasSubstr("micro_batch"));
  EXPECT_THAT(error(normalised, {"train.batch_schedule=[[1, 300, 0]]"}), HasSubstr("batch_schedule's batch = 300"));
  EXPECT_EQ(error(normalised, {"train.batch=100"}), "no error");
  EXPECT_EQ(error(normalised, {"train.batch=1024", "train.micro_batch=256"}), "no error");
  EXPECT_EQ(error(normalised, {"train.batch=200", "train.ghost_batch=0"}), "no error");
}

TEST_F(RecipeTest, TakesAnyBatchWhereNothingIsNormalised) {
  EXPECT_EQ(error("model = 'lenet'", {"train.batch=1000", "train.micro_batch=300", "train.batch_schedule=[[1, 30, 0]]",
                                      "train.sharpness=0.1", "train.sharpness_batch=10", "train.sharpness_after=0.5"}),
            "no error");
  EXPECT_THAT(error("model = 'my own'", {"train.batch=1000"}), HasSubstr("ghost batches")) << "it may normalise";
}

TEST_F(RecipeTest, RefusesKeysThatHaveNoEffect) {
  for (const std::string key :
       {"sharpness_after = 0.75", "sharpness_batch = 512", "sharpness_every = 2", "sharpness_along = \"momentum\""}) {
    const auto name = "train." + key.substr(0, key.find(' '));
    EXPECT_EQ(error("[train]\n" + key), "r.toml: train." + key +
                                            " has no effect without train.sharpness; set "
                                            "train.sharpness or leave " +
                                            name + " out");
    EXPECT_EQ(error("[train]\nbatch = 1024\nsharpness = 0.1\n" + key), "no error");
  }
  EXPECT_THAT(error("", {"noise.penalty_every=2"}),
              HasSubstr("noise.penalty_every = 2 has no effect without noise.penalty; set"));
  EXPECT_THAT(error("", {"noise.penalty_step=0.1"}), HasSubstr("noise.penalty_step = 0.1 has no effect"));
  EXPECT_EQ(error("", {"train.sharpness_after=0", "noise.penalty_every=1"}), "no error");  // the defaults
  EXPECT_EQ(load("[noise]\npenalty = 0.1\npenalty_every = 2", {"noise.penalty=0"}).noise.penalty, 0) << "switched off";
  Config run;
  run.train.sharpness_after = 0.75;
  EXPECT_EQ(parse_config(to_toml(run), "config.toml").train.sharpness_after, 0.75) << "runs of earlier versions";
}

TEST_F(RecipeTest, RefusesBrokenCombinations) {
  EXPECT_THAT(error("", {"train.batch_schedule=[[3, 256, 0], [2, 128, 0]]"}), HasSubstr("back in time"));
  EXPECT_THAT(error("", {"regime=lb-full", "noise.refresh=2"}), HasSubstr("noise.refresh = 2 is not possible"));
  EXPECT_THAT(error("", {"data.train_limit=100", "data.holdout=100"}), HasSubstr("leaves nothing"));
}

TEST_F(RecipeTest, RefusesAWarmUpThatIsNotShorterThanTheTraining) {
  EXPECT_THAT(error("train.warmup = 12"), HasSubstr("train.warmup = 12 epochs is not shorter than the training, "
                                                    "train.epochs = 10; lower it"));
  EXPECT_EQ(error("train.warmup = 12", {"train.epochs=13"}), "no error");
  EXPECT_EQ(error("train.warmup = 0.9"), "no error");
}

/// Also where only several keys together are wrong, so that no line can be named.
TEST_F(RecipeTest, RefusesCombinationsWithTheFilesName) {
  EXPECT_THAT(error("model = 'f1'\n[train]\nbatch = 200"), StartsWith("r.toml: train.batch = 200 is not"));
  EXPECT_THAT(error("model = 'f1'\n[train]\nghost_batch = 96", {"train.batch=200"}),
              StartsWith("r.toml with the settings given: train.batch = 200 is not"));
  EXPECT_THAT(
      [] {
        load_config({}, {"model=f1", "train.batch=200"});
      },
      ThrowsMessage<Error>(StartsWith("train.batch = 200 is not")));
}

}  // namespace
}  // namespace covnoise
