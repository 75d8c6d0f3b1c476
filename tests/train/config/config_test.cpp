#include "covnoise/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/regimes.h"
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

/// The large batches that are known to train: docs/results.md.
TEST(Config, LargeBatchRegimesHaveClippingWarmUpCosineAndARateForThem) {
  for (const auto& regime : regime_names()) {
    if (regime.rfind("lb", 0) != 0) continue;
    auto config = load_config({}, {"regime=" + regime, "model=resnet44"});
    EXPECT_EQ(config.train.clip_norm, 1) << regime;
    EXPECT_EQ(config.train.schedule, "cosine") << regime;
    EXPECT_GT(config.train.warmup, 0) << regime;
    resolve_defaults(config);
    EXPECT_EQ(config.train.lr, 1.6) << regime;
    EXPECT_EQ(config.noise.match_lr, 0.1) << regime;
  }
  auto lenet = load_config({}, {"regime=lb"}), unclipped = load_config({}, {"regime=lb", "train.clip_norm=0"});
  resolve_defaults(lenet);
  resolve_defaults(unclipped);
  EXPECT_EQ(lenet.train.lr, 0.8);
  EXPECT_EQ(unclipped.train.lr, 0.119);
}

/// The small batch does not clip, whether the large one does or not.
TEST(Config, MatchesTheLearningRateOfTheSmallBatchRegime) {
  for (const std::string batch : {"32", "256"}) {
    auto match = load_config({}, {"regime=lb-diag-match", "model=resnet8", "noise.small_batch=" + batch});
    auto small = load_config({}, {"regime=sb", "model=resnet8", "train.batch=" + batch});
    resolve_defaults(match);
    resolve_defaults(small);
    EXPECT_EQ(match.noise.match_lr, small.train.lr) << batch;
  }
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

TEST(Config, MatchesTheScheduleOfTheSmallBatchRegimeWhereNoLearningRateIsGiven) {
  const auto noise_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"model=lenet", "regime=lb-diag-match"};
    settings.insert(settings.end(), more.begin(), more.end());
    auto config = load_config(std::nullopt, settings);
    resolve_defaults(config);
    return config.noise;
  };
  EXPECT_EQ(noise_of({}).match_schedule, "step");
  EXPECT_EQ(noise_of({}).match_warmup, 0);
  EXPECT_EQ(noise_of({"noise.match_schedule=cosine"}).match_schedule, "cosine");
  EXPECT_EQ(noise_of({"noise.match_lr=0.05"}).match_schedule, "");
  EXPECT_EQ(noise_of({"noise.match_lr=0.05"}).match_warmup, -1);
}

TEST(Config, DefaultsWithoutARecipe) {
  const auto config = load_config({}, {});
  EXPECT_EQ(to_toml(config), to_toml(Config()));
  EXPECT_EQ(config.data.name, "glyphs");
}

TEST(Config, OverridesTakeTomlAndBareWords) {
  const auto config = load_config(
      {}, {"model=resnet44", "data=folder:/a b/c=d", "train.milestones=[0.5, 3]", "seed=7", "train.nesterov=true",
           "noise.scale=match", "data.augment=\"off\"", "train.batch_schedule=[[0.25, 256, 1]]", "train.lr=1"});
  EXPECT_EQ(config.model, "resnet44");
  EXPECT_EQ(config.data.name, "folder:/a b/c=d");
  EXPECT_THAT(config.train.milestones, ElementsAre(0.5, 3));
  EXPECT_EQ(config.seed, 7U);
  EXPECT_TRUE(config.train.nesterov);
  EXPECT_TRUE(config.noise.scale.match);
  EXPECT_EQ(config.data.augment, "off");
  EXPECT_THAT(config.train.batch_schedule, ElementsAre(BatchChange{0.25, 256, 1}));
  EXPECT_EQ(config.train.lr, 1);
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

TEST(Config, MissingRecipeIsOneLine) {
  EXPECT_THAT([] { load_config("/no/such.toml", {}); },
              ThrowsMessage<Error>(HasSubstr("cannot read /no/such.toml: No such file")));
}

TEST(Config, ComesBackFromTomlExactly) {
  Config config;
  config.model = "odd \"name\" \\ \t\x7f";
  config.seed = 9223372036854775807U;
  config.train.lr = 0.1 + 0.2;
  config.train.weight_decay = 5e-324;
  config.train.milestones = {};
  config.train.clip_norm = 1e22;
  config.train.batch_schedule = {{0, 128, 1.0 / 3}, {4, 256, 0}};
  config.noise.scale.match = true;
  config.noise.labels = Labels::kModel;
  config.noise.placement = Placement::kGradient;
  config.noise.group = 32;
  const std::string text = to_toml(config);
  const auto again = parse_config(text, "x");
  EXPECT_EQ(to_toml(again), text);
  EXPECT_THAT(difference(config, again), ElementsAre());
  EXPECT_EQ(again.train.lr, config.train.lr);
  EXPECT_EQ(again.model, config.model);
  EXPECT_EQ(again.train.batch_schedule, config.train.batch_schedule);
  EXPECT_EQ(again.noise.labels, Labels::kModel);
  EXPECT_EQ(again.noise.placement, Placement::kGradient);
}

/// The key noise.group is newer than some runs, whose groups were the small batch.
TEST(Config, OfARunWithoutAGroupHasTheSmallBatch) {
  auto now = load_config({}, {"noise.small_batch=64"});
  now.noise.group = 64;
  const auto text = to_toml(now);
  const std::string key = "group = 64\n";
  auto before = text;
  before.erase(before.find(key), key.size());
  EXPECT_THAT(difference(parse_config(before, "x"), now), ElementsAre());
}

TEST(Config, AKeyWithoutItsSectionIsSuggested) {
  EXPECT_THAT([] { load_config({}, {"lr=0.1"}); },
              ThrowsMessage<Error>(HasSubstr("unknown key lr (did you mean train.lr?)")));
}

TEST(Config, NamesTheKnownPlacements) {
  EXPECT_THAT([] { load_config({}, {"noise.placement=sideways"}); },
              ThrowsMessage<Error>(HasSubstr("noise.placement = \"sideways\": must be one of update, gradient")));
  EXPECT_EQ(load_config({}, {"noise.placement=gradient"}).noise.placement, Placement::kGradient);
}

TEST(Config, ResolvedTextKeepsARegimesOverriddenKeys) {
  const auto config = load_config({}, {"regime=lb", "train.batch=512"});
  EXPECT_EQ(parse_config(to_toml(config), "x").train.batch, 512);
  EXPECT_THROW(parse_config("[regimes.lb]", "x"), Error);
}

/// A run's configuration that this version refuses says whose it is.
TEST(Config, OfARunThatIsRefusedNamesItsFile) {
  const std::string text = "[noise]\nstructure = 'kfac'\nrefresh = 10\n";
  EXPECT_THAT(
      [&] { parse_config(text, "runs/old/config.toml"); },
      ThrowsMessage<Error>("runs/old/config.toml: noise.refresh = 10 is not possible for kfac: every step needs "
                           "its own draw; use 1"));
}

TEST(Config, TextIsStable) {
  const std::string text = to_toml(Config());
  EXPECT_EQ(text.substr(0, text.find("\n\n[data]")), R"(model = "lenet"
regime = "sb"
seed = 0

[train]
batch = 128
epochs = 10
lr = 0.0
optimizer = "sgd"
momentum = 0.9
beta2 = 0.999
eps = 1e-08
nesterov = false
weight_decay = 0.0005
no_decay = []
clip_norm = 0.0
label_smoothing = 0.0
ema = 0.0
ghost_batch = 128
micro_batch = 0
sharpness = 0.0
sharpness_along = "gradient"
sharpness_batch = 128
sharpness_after = 0.0
sharpness_every = 1
warmup = 0.0
schedule = "step"
milestones = [0.5, 0.75]
decay = 0.1
batch_schedule = []
eval_train = "never"
eval_every = 1
log_every = 0
checkpoint_every = 1
snapshot_every = 0
precision = "fp32"
init = ""
init_partial = false
init_sha256 = "")");
}

TEST(Config, DifferenceNamesKeysButNotHowItRuns) {
  const auto there = load_config({}, {"train.lr=0.1", "run.threads=1"});
  const auto here = load_config({}, {"train.lr=0.2", "run.threads=2", "train.eval_every=7", "train.checkpoint_every=3",
                                     "train.snapshot_every=10", "noise.scale=match"});
  EXPECT_THAT(difference(there, here),
              ElementsAre("train.lr: 0.1 there, 0.2 here", "noise.scale: 1.0 there, \"match\" here"));
}

/// Not how often something is measured or kept, but what is computed.
TEST(Config, DifferenceNamesHowOftenStepsAreSharpOrPenalised) {
  Config here;
  here.train.sharpness_every = 2, here.noise.penalty_every = 3;
  EXPECT_THAT(difference(Config(), here),
              ElementsAre("train.sharpness_every: 1 there, 2 here", "noise.penalty_every: 1 there, 3 here"));
}

TEST(Config, ValuesStandBesideTheirKeys) {
  const auto values = config_values(load_config({}, {"train.lr=0.1"}));
  ASSERT_EQ(values.size(), config_keys().size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].first, config_keys()[i]);
  EXPECT_THAT(values, ::testing::Contains(::testing::Pair("train.lr", "0.1")));
}

TEST(Config, DescribesEveryKey) {
  const std::string text = describe_keys();
  for (const auto& key : config_keys()) EXPECT_THAT(text, HasSubstr(key + " = "));
}

TEST(Regimes, EachLoadsAndIsWhatItsNameSays) {
  for (const auto& name : regime_names()) {
    const auto config = load_config({}, {"regime=" + name});
    EXPECT_EQ(config.regime, name);
    const bool large = name.compare(0, 2, "lb") == 0;
    EXPECT_EQ(config.train.batch, large ? 4096 : 128) << name;
    EXPECT_EQ(config.noise.structure != "none", name.compare(0, 3, "lb-") == 0) << name;
  }
  EXPECT_TRUE(load_config({}, {"regime=lb-diag-match"}).noise.scale.match);
  EXPECT_THAT(load_config({}, {"regime=batch-change"}).train.batch_schedule, ElementsAre(BatchChange{0.25, 4096, 0}));
}

}  // namespace
}  // namespace covnoise
