#include "covnoise/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/regimes.h"

namespace covnoise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

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
