// Several ranks give the answers of one.
#include "covnoise/core/internal/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/data/internal/digest.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/trainer.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "train/ranks/rank_consistency.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace covnoise {
namespace {

using Settings = std::vector<std::string>;

/// 50 steps in float64: of 32 examples, or, where they are convolved, of 16.
Config ranks_config(const std::string& model, const Settings& settings) {
  Settings all = {"model=" + model,      "data=glyphs",          "train.epochs=10",         "train.log_every=5",
                  "train.ghost_batch=2", "noise.small_batch=2",  "noise.stop_after=0.75",   "train.micro_batch=8",
                  "train.lr=0.02",       "train.precision=fp64", "train.checkpoint_every=5"};
  const Settings many = {"train.batch=32", "data.train_limit=160", "data.test_limit=700"};  // two slices of evaluation
  const Settings few = {"train.batch=16", "data.train_limit=80", "data.test_limit=20"};
  const auto& sizes = model == "mlp" ? many : few;
  all.insert(all.end(), sizes.begin(), sizes.end());
  all.insert(all.end(), settings.begin(), settings.end());
  auto config = load_config(std::nullopt, all);
  resolve_defaults(config);
  check_config(config);
  return config;
}

/// Trains with that many ranks, the last of which asks for a stop after `steps` steps (0: never).
void train_with(int ranks, const Config& config, const std::filesystem::path& out, int steps = 0) {
  const auto options_for = [&](Communicator* communicator) {
    TrainOptions options;
    options.data = known_data_sets();
    options.config = config;
    options.out = out;
    options.communicator = communicator;
    options.buckets = {4, 1};  // small networks, too, are summed in parts
    if (steps > 0 && (!communicator || communicator->rank() + 1 == ranks)) {
      options.stop_requested = [asked = 0, steps]() mutable { return ++asked == steps; };
    }
    return options;
  };
  const auto expected = steps > 0 ? Outcome::kInterrupted : Outcome::kFinished;
  if (ranks == 1) {
    set_threads(1);
    EXPECT_EQ(train(options_for(nullptr)), expected);
    set_threads(0);
    return;
  }
  testing::as_ranks(ranks, [&](Communicator& communicator) { EXPECT_EQ(train(options_for(&communicator)), expected); });
}

std::filesystem::path last_checkpoint(const std::filesystem::path& run) {
  return CheckpointStore(run / "checkpoints").list().back().path;
}

/// The largest difference of two runs' weights and running statistics.
double distance(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto there = CheckpointStore::load(last_checkpoint(a)).checkpoint.model;
  const auto here = CheckpointStore::load(last_checkpoint(b)).checkpoint.model;
  double largest = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    EXPECT_EQ(there[i].first, here[i].first);
    largest = std::max(largest, (there[i].second - here[i].second).abs().max().item<double>());
  }
  return largest;
}

struct RanksCase {
  std::string name, model;
  Settings settings;
};

class RanksTrain : public ::testing::TestWithParam<RanksCase> {};

// The draws of these structures do not depend on the number of ranks, so the weights do not either.
TEST_P(RanksTrain, AsOneProcessDoes) {
  const testing::TemporaryFolder folder;
  const auto config = ranks_config(GetParam().model, GetParam().settings);
  train_with(1, config, folder / "1");
  const auto expected = read_metrics(folder / "1").back();
  for (const int ranks : {2, 4}) {
    const auto run = folder / std::to_string(ranks);
    train_with(ranks, config, run);
    EXPECT_LT(distance(folder / "1", run), 1e-10) << ranks << " ranks";
    const auto last = read_metrics(run).back();
    EXPECT_EQ(last["step"], expected["step"]);
    EXPECT_EQ(last["test_accuracy"], expected["test_accuracy"]);
    EXPECT_NEAR(last["test_loss"].get<double>(), expected["test_loss"].get<double>(), 1e-9);
    EXPECT_NEAR(last["train_loss"].get<double>(), expected["train_loss"].get<double>(), 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, RanksTrain,
    ::testing::Values(
        RanksCase{"none", "resnet8", {}}, RanksCase{"full_fisher", "mlp", {"noise.structure=full-fisher"}},
        RanksCase{"nesterov", "mlp", {"noise.structure=full-fisher", "train.nesterov=true", "train.epochs=3"}},
        RanksCase{"clipped", "mlp", {"noise.structure=true-fisher", "train.clip_norm=0.5", "train.epochs=3"}},
        RanksCase{"clipped_nesterov",
                  "mlp",
                  {"noise.structure=full-fisher", "train.clip_norm=0.5", "train.nesterov=true", "train.epochs=3"}},
        RanksCase{"clipped_in_gradient",
                  "mlp",
                  {"noise.structure=full-fisher", "train.clip_norm=0.5", "noise.placement=gradient", "train.epochs=3"}},
        RanksCase{"clipped_apart",
                  "mlp",
                  {"noise.structure=full-fisher", "train.clip_norm=0.5", "noise.clip_norm=0.3", "train.epochs=3"}},
        RanksCase{"noise_clipped_in_gradient",
                  "mlp",
                  {"noise.structure=full-fisher", "noise.clip_norm=0.3", "noise.placement=gradient", "train.epochs=3"}},
        RanksCase{"clipped_match",
                  "mlp",
                  {"noise.structure=full-fisher", "train.clip_norm=0.5", "noise.placement=gradient",
                   "noise.scale=match", "noise.match_lr=0.005", "train.epochs=3"}},
        RanksCase{
            "signs_in_gradient",
            "mlp",
            {"noise.structure=diag-fisher", "noise.estimator=signs", "noise.placement=gradient", "train.epochs=3"}},
        RanksCase{"adamw_in_update",
                  "mlp",
                  {"noise.structure=full-fisher", "train.optimizer=adamw", "train.lr=1e-3", "train.eps=1e-4",
                   "train.epochs=3"}},
        RanksCase{"trace", "mlp", {"noise.structure=fisher-trace", "noise.estimator=exact", "train.epochs=3"}},
        RanksCase{"multiplicative", "mlp", {"noise.structure=multiplicative", "train.epochs=3"}},
        RanksCase{"isotropic", "mlp", {"noise.structure=isotropic", "noise.sigma=0.01", "train.epochs=3"}},
        RanksCase{"full_fisher_in_weights",
                  "mlp",
                  {"noise.structure=full-fisher", "noise.placement=weights", "noise.scale=0.05", "train.epochs=3"}},
        RanksCase{"radius_in_weights",
                  "mlp",
                  {"noise.structure=full-fisher", "noise.placement=weights", "noise.radius=0.3", "train.clip_norm=0.5",
                   "train.epochs=3"}},
        RanksCase{"trace_in_weights",
                  "mlp",
                  {"noise.structure=fisher-trace", "noise.estimator=exact", "noise.placement=weights",
                   "train.optimizer=adamw", "train.lr=1e-3", "train.epochs=3"}},
        RanksCase{"sharpness", "mlp", {"train.sharpness=0.1", "train.sharpness_batch=8", "train.epochs=3"}},
        RanksCase{"sharpness_at_times",
                  "mlp",
                  {"train.sharpness=0.1", "train.sharpness_batch=8", "train.sharpness_every=2", "train.epochs=3"}},
        RanksCase{"sharpness_along_momentum",
                  "resnet8",
                  {"train.sharpness=0.1", "train.sharpness_along=momentum", "train.epochs=3"}},
        RanksCase{
            "sharpness_along_momentum_with_noise",
            "mlp",
            {"train.sharpness=0.1", "train.sharpness_along=momentum", "noise.structure=full-fisher", "train.epochs=3"}},
        RanksCase{"sharpness_of_ghost_batches",
                  "resnet8",
                  {"train.sharpness=0.05", "train.sharpness_batch=4", "train.micro_batch=4", "train.ghost_batch=4",
                   "noise.structure=full-fisher", "noise.placement=weights", "noise.radius=0.01", "train.epochs=2",
                   "train.warmup=1.9"}},
        // Of stacked normalisations of pairs the rounding grows without bound, so these have ghost batches of 4.
        RanksCase{"dropout", "c1", {"train.epochs=2", "train.warmup=1.9", "train.ghost_batch=4"}},
        RanksCase{"features", "f1", {"train.epochs=2", "train.warmup=1.9", "train.ghost_batch=4"}},
        RanksCase{"batch_change", "resnet8", {"train.batch_schedule=[[1, 4, 0.01]]", "train.epochs=2"}},
        RanksCase{"batch_below_the_ghost_batch",
                  "resnet8",
                  {"train.ghost_batch=8", "train.batch_schedule=[[1, 4, 0.01]]", "train.epochs=2"}}),
    [](const auto& info) { return info.param.name; });

TEST(Ranks, ResumeBitForBit) {
  const Settings cases[] = {{"noise.structure=diag-fisher"},
                            {"noise.structure=kfac"},
                            {"noise.structure=fisher-trace", "noise.refresh=4"},
                            {"noise.structure=diag-fisher", "noise.placement=weights", "noise.radius=0.1"}};
  for (const auto& settings : cases) {
    const testing::TemporaryFolder folder;
    auto config = ranks_config("resnet8", settings);
    config.train.epochs = 2;
    config.train.precision = "fp32";
    train_with(2, config, folder / "calm");
    train_with(2, config, folder / "interrupted", 4);
    train_with(2, config, folder / "interrupted");
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(read_file(last_checkpoint(folder / "interrupted") / file),
                read_file(last_checkpoint(folder / "calm") / file))
          << settings[0] << " " << file;
    }
  }
}

TEST(Ranks, ResumeWithAnotherNumber) {
  const testing::TemporaryFolder folder;
  for (const char* nesterov : {"train.nesterov=false", "train.nesterov=true"}) {
    const auto config = ranks_config("mlp", {"noise.structure=full-fisher", "train.epochs=4", nesterov});
    const auto calm = folder / (std::string("calm-") + nesterov);
    train_with(1, config, calm);
    for (const auto& [before, after] : {std::pair{2, 1}, {1, 2}, {4, 2}}) {
      const auto run = folder / (std::to_string(before) + "-" + std::to_string(after) + nesterov);
      train_with(before, config, run, 7);
      train_with(after, config, run);
      EXPECT_LT(distance(calm, run), 1e-10) << before << " ranks, then " << after;
    }
  }
}

TEST(Ranks, ResumeNoiseInTheWeightsWithAnotherNumber) {
  const testing::TemporaryFolder folder;
  const auto config = ranks_config(
      "mlp", {"noise.structure=full-fisher", "noise.placement=weights", "noise.scale=0.05", "train.epochs=4"});
  train_with(1, config, folder / "calm");
  for (const auto& [before, after] : {std::pair{2, 1}, {1, 2}}) {
    const auto run = folder / (std::to_string(before) + "-" + std::to_string(after));
    train_with(before, config, run, 7);
    train_with(after, config, run);
    EXPECT_LT(distance(folder / "calm", run), 1e-10) << before << " ranks, then " << after;
  }
}

/// Each rank reads the file's running statistics, and only one of them may keep them.
TEST(Ranks, StartFromInitialWeights) {
  const testing::TemporaryFolder folder;
  auto config = ranks_config("resnet8", {"train.epochs=1"});
  train_with(1, config, folder / "first");
  const auto file = last_checkpoint(folder / "first") / "model.safetensors";
  config = ranks_config("resnet8", {"train.epochs=1", "seed=1", "train.init=" + file.string()});
  train_with(1, config, folder / "1");
  train_with(2, config, folder / "2");
  EXPECT_LT(distance(folder / "1", folder / "2"), 1e-10);
}

TEST(Ranks, DiagonalNoiseIsAsStrongAsInOneProcess) {
  const testing::TemporaryFolder folder;
  const auto config = ranks_config(
      "resnet8", {"noise.structure=diag-fisher", "noise.estimator=exact", "train.epochs=1", "train.log_every=1"});
  train_with(1, config, folder / "1");
  train_with(4, config, folder / "4");
  const auto one = read_metrics(folder / "1").front(), four = read_metrics(folder / "4").front();
  EXPECT_NEAR(four["fisher_trace"].get<double>(), one["fisher_trace"].get<double>(),
              1e-9 * one["fisher_trace"].get<double>());
  EXPECT_NEAR(four["noise_norm"].get<double>() / one["noise_norm"].get<double>(), 1, 0.1);
}

TEST(Ranks, WithOtherDataAreRefusedByName) {
  const auto trial = [](Communicator& communicator) {
    DataSource source;
    source.name = "mnist";
    source.train = source.test = {at::zeros({2, 1, 3, 3}, at::kByte), at::zeros({2}, at::kLong)};
    EXPECT_NO_THROW(refuse_other_data(communicator, source.name, data_digest(source)));
    if (communicator.rank() == 2) source.test.labels = at::ones({2}, at::kLong);
    refuse_other_data(communicator, source.name, data_digest(source));
  };
  EXPECT_THAT([&] { testing::as_ranks(3, trial); },
              ::testing::ThrowsMessage<Error>(::testing::MatchesRegex("rank 2 \\(.*other data of the name mnist.*")));
}

TEST(Ranks, WithAnotherVersionOfTheProgramAreRefusedByName) {
  const auto trial = [](Communicator& communicator) {
    const auto config = ranks_config("mlp", {});
    EXPECT_NO_THROW(refuse_other_training(communicator, config));
    refuse_other_training(communicator, config, communicator.rank() == 2 ? "0.0.1-other" : program_version());
  };
  EXPECT_THAT([&] { testing::as_ranks(3, trial); },
              ::testing::ThrowsMessage<Error>(::testing::AllOf(
                  ::testing::HasSubstr("rank 2 ("),
                  ::testing::HasSubstr("was started for another training: version: \"0.0.1-other\" there, \"" +
                                       program_version() + "\" on rank 0"))));
}

TEST(Ranks, WithAnotherConfigurationAreRefusedByName) {
  const testing::TemporaryFolder folder;
  const auto trial = [&](Communicator& communicator) {
    TrainOptions options;
    options.data = known_data_sets();
    options.config = ranks_config("mlp", {communicator.rank() == 1 ? "train.lr=0.5" : "train.lr=0.25"});
    options.out = folder / "run";
    options.communicator = &communicator;
    train(options);
  };
  EXPECT_THAT([&] { testing::as_ranks(2, trial); },
              ::testing::ThrowsMessage<Error>(::testing::AllOf(
                  ::testing::HasSubstr("rank 1 ("), ::testing::HasSubstr("train.lr: 0.5 there, 0.25 on rank 0"))));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace covnoise
