// A network, loss, examples and structure of the caller's own in a run folder.
#include "covnoise/core/error.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/trainer.h"
#include "support/temporary_folder.h"
#include "train/own_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <set>
#include <utility>

namespace covnoise {
namespace {

using testing::own_options;
using testing::recorded_test_loss;
using testing::Series;
using testing::series;

struct OwnNetwork : torch::nn::Module {
  torch::nn::Linear in{register_module("in", torch::nn::Linear(3, 8))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(8, 1))};
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

Losses series_losses(OwnNetwork& network, const Series& batch) {
  return mean_squared_error(network.forward(batch.x), batch.y);
}

Task own_task() {
  return make_task<Series>([] { return std::make_shared<OwnNetwork>(); }, series_losses, series(256, 0), series(64, 1));
}

at::Tensor weights_of(const Trainer& trainer) {
  std::vector<at::Tensor> flat;
  for (const auto& parameter : trainer.module().parameters()) flat.push_back(parameter.detach().cpu().flatten());
  return torch::cat(flat);
}

TEST(OwnTask, TrainsARegressionWithoutAccuracies) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> lines;
  auto options = own_options(folder / "run");
  options.say = [&](const std::string& line) { lines.push_back(line); };
  Trainer trainer(options, own_task());
  EXPECT_EQ(trainer.run(), Outcome::kFinished);
  EXPECT_EQ(trainer.config().noise.estimator, "micro");  // PyTorch's layers
  EXPECT_THAT(lines.at(0), ::testing::HasSubstr("noise diag-fisher (micro, micro-batches of 16)"));
  EXPECT_THAT(lines.back(),
              ::testing::AllOf(::testing::HasSubstr("test loss"), ::testing::Not(::testing::HasSubstr("accuracy"))));
  const auto records = read_metrics(options.out);
  ASSERT_FALSE(records.empty());
  for (const auto& record : records) EXPECT_FALSE(record.contains("train_accuracy")) << record.dump();
  EXPECT_GT(trainer.evaluate().loss, 0);
  EXPECT_NEAR(trainer.evaluate().loss, records.back().at("test_loss").get<double>(), 1e-6);
}

/// The network afterwards is the one that was evaluated and saved, and so are the examples.
TEST(OwnTask, EvaluatesAsTheTrainingDid) {
  const std::vector<std::vector<std::string>> cases = {
      {"train.ema=0.9"}, {"data.test_limit=20"}, {"train.ema=0.9", "data.test_limit=20", "train.precision=fp64"}};
  for (const auto& settings : cases) {
    const testing::TemporaryFolder folder;
    for (const Outcome expected : {Outcome::kFinished, Outcome::kFinishedBefore}) {
      Trainer trainer(own_options(folder / "run", settings), own_task());
      ASSERT_EQ(trainer.run(), expected);
      const auto evaluation = trainer.evaluate();
      EXPECT_DOUBLE_EQ(evaluation.loss, recorded_test_loss(folder / "run")) << settings[0];
      EXPECT_EQ(evaluation.examples, settings.back() == "train.ema=0.9" ? 64 : 20);
      const auto saved = CheckpointStore(folder / "run/checkpoints").load_latest([](const std::string&) {});
      for (const auto& [name, tensor] : model_tensors(trainer.module())) {
        const auto& model = saved->checkpoint.model;
        const auto found =
            std::find_if(model.begin(), model.end(), [&n = name](const auto& t) { return t.first == n; });
        EXPECT_TRUE(found->second.equal(tensor.cpu())) << settings[0] << " " << name;
      }
    }
  }
}

TEST(OwnTask, ResumesToTheSameWeights) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const testing::TemporaryFolder folder;
    const std::string setting = std::string("train.optimizer=") + optimizer;
    Trainer whole(own_options(folder / "whole", {setting}), own_task());
    whole.run();
    auto interrupted = own_options(folder / "parts", {setting});
    int steps = 0;
    interrupted.stop_requested = [&] { return ++steps == 3; };
    EXPECT_EQ(Trainer(interrupted, own_task()).run(), Outcome::kInterrupted);
    Trainer resumed(own_options(folder / "parts", {setting}), own_task());
    EXPECT_EQ(resumed.run(), Outcome::kFinished);
    EXPECT_TRUE(weights_of(whole).equal(weights_of(resumed))) << optimizer;
    Trainer again(own_options(folder / "parts", {setting}), own_task());
    EXPECT_EQ(again.run(), Outcome::kFinishedBefore);
    EXPECT_TRUE(weights_of(whole).equal(weights_of(again))) << optimizer;
  }
}

/// Large noise, so that it can be told from none.
class Constant final : public NoiseStructure {
 public:
  Needs needs() const override { return {}; }
  bool scaled_by_batch() const override { return false; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream&) const override {
    return at::ones_like(statistics.gradient);
  }
};

TEST(OwnTask, UsesAStructureOfItsOwn) {
  const testing::TemporaryFolder folder;
  const std::vector<std::string> one_step = {"noise.structure=none", "train.epochs=1",       "data.train_limit=64",
                                             "train.momentum=0",     "train.weight_decay=0", "train.clip_norm=0",
                                             "train.warmup=0"};
  Trainer plain(own_options(folder / "plain", one_step), own_task());
  plain.run();
  auto task = own_task();
  task.structure = [] { return std::make_unique<Constant>(); };
  Trainer noisy(own_options(folder / "noisy", one_step), task);
  noisy.run();
  EXPECT_TRUE((weights_of(plain) - weights_of(noisy)).allclose(torch::full_like(weights_of(plain), 0.02), 1e-4, 1e-5));
}

/// What a Trainer says; nothing where it takes the settings.
std::string refusal(const Task& task, const std::vector<std::string>& settings) {
  try {
    Trainer(own_options("run", settings), task);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OwnTask, RefusesAnOpenLearningRate) {
  EXPECT_THAT(refusal(own_task(), {"train.lr=0"}), ::testing::HasSubstr("train.lr must be set"));
}

TEST(OwnTask, RefusesAnOpenRateOfTheMatchedBatch) {
  EXPECT_THAT(refusal(own_task(), {"noise.scale=match"}), ::testing::HasSubstr("noise.match_lr must be set"));
  EXPECT_EQ(refusal(own_task(), {"noise.scale=match", "noise.match_lr=0.01"}), "");
  EXPECT_EQ(refusal(own_task(), {"noise.scale=match", "noise.structure=none"}), "");
}

/// Of which the first epochs depend on the number of epochs only by the end of the noise.
TEST(OwnTask, IsContinuedOnlyIfItsNoiseWouldHaveEndedAsItDid) {
  for (const bool noisy : {false, true}) {
    const testing::TemporaryFolder folder;
    auto task = own_task();
    if (noisy) task.structure = [] { return std::make_unique<Constant>(); };
    const auto run = [&](const std::string& epochs) {
      return Trainer(own_options(folder / "run", {"noise.structure=none", "noise.stop_after=0.5", epochs,
                                                  "train.schedule=constant", "train.warmup=0"}),
                     task)
          .run();
    };
    ASSERT_EQ(run("train.epochs=2"), Outcome::kFinished);
    if (noisy) {
      EXPECT_THAT([&] { run("train.epochs=4"); },
                  ::testing::ThrowsMessage<Error>(::testing::HasSubstr("(noise.stop_after = 0.5)")));
    } else {
      EXPECT_EQ(run("train.epochs=4"), Outcome::kFinished);
    }
  }
}

class OfGroups final : public NoiseStructure {
 public:
  explicit OfGroups(Squares squares) { needs_.squares = squares; }
  Needs needs() const override { return needs_; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream&) const override {
    return at::zeros_like(statistics.gradient);
  }

 private:
  Needs needs_;
};

TEST(OwnTask, RefusesGroupsThatItsStructureCannotCompare) {
  auto task = own_task();
  task.structure = [] { return std::make_unique<OfGroups>(Squares::kGhost); };
  EXPECT_THAT(refusal(task, {"noise.structure=none", "noise.group=48"}),
              ::testing::HasSubstr("train.batch = 64 is not two or more whole groups of 48 examples"));
  EXPECT_EQ(refusal(task, {"noise.structure=none", "noise.group=32"}), "");
  task.structure = [] { return std::make_unique<OfGroups>(Squares::kMicro); };
  EXPECT_THAT(refusal(task, {"noise.structure=none", "train.micro_batch=64"}),
              ::testing::HasSubstr("must be two or more times train.micro_batch = 64"));
  EXPECT_EQ(Trainer(own_options("run", {"noise.structure=none"}), task).config().train.micro_batch, 16);
}

/// Two normalisations of unlike ghost batches.
struct TwiceNormalisedNetwork : testing::NormalisedNetwork {
  explicit TwiceNormalisedNetwork(std::int64_t ghost_batch) : NormalisedNetwork(ghost_batch) {
    register_module("other", GhostBatchNorm1d(torch::nn::BatchNormOptions(8), 12));
  }
};

TEST(OwnTask, HasTheGhostBatchOfItsLayers) {
  const auto ghost_batch = [](const Task& task, const std::vector<std::string>& settings) {
    return Trainer(own_options("run", settings), task).config().train.ghost_batch;
  };
  EXPECT_EQ(ghost_batch(own_task(), {}), 1);
  EXPECT_EQ(ghost_batch(testing::normalised_task(16), {"train.ghost_batch=32"}), 16);
  EXPECT_EQ(ghost_batch(testing::normalised_task(0), {"noise.structure=none"}), 0);
  const auto twice = testing::normalised_task<TwiceNormalisedNetwork>(16);
  EXPECT_EQ(ghost_batch(twice, {"train.batch=96", "noise.structure=none"}), 48);
  EXPECT_EQ(ghost_batch(testing::normalised_task(128), {"noise.structure=none"}), 64);  // the batch
}

/// (examples, ghost batch) of the passes in which the layer normalises.
using Passes = std::set<std::pair<std::int64_t, std::int64_t>>;

/// A batch below the ghost batch is one of its own; larger ones are not divided by it. The first pass over each batch
/// is never replayed.
TEST(OwnTask, NormalisesEachBatchOfAScheduleByTheGhostBatchOfTheLayers) {
  const testing::TemporaryFolder folder;
  Passes passes;
  auto task = testing::normalised_task(16);
  task.loss = [&passes, loss = task.loss](torch::nn::Module& module, const GradientPass::Examples& examples) {
    const auto& norm = *dynamic_cast<testing::NormalisedNetwork&>(module).norm;
    if (norm.is_training()) passes.insert({examples[0].size(0), norm.ghost_batch()});
    return loss(module, examples);
  };
  Trainer trainer(own_options(folder / "run", {"train.batch=8", "train.batch_schedule=[[1, 64, 0.02]]",
                                               "noise.structure=none", "train.ema=0.9"}),
                  task);
  EXPECT_EQ(trainer.config().train.ghost_batch, 16);
  ASSERT_EQ(trainer.run(), Outcome::kFinished);
  EXPECT_EQ(passes, (Passes{{8, 8}, {64, 16}}));
}

TEST(OwnTask, RefusesBatchesThatItsLayersCannotNormalise) {
  EXPECT_EQ(refusal(testing::normalised_task(48), {}),
            "train.batch = 64 is not a whole number of ghost batches of layer 'norm', which normalises 48 examples "
            "together; change one of them");
  EXPECT_THAT(
      refusal(testing::normalised_task(16), {"train.batch_schedule=[[1, 72, 0.1]]"}),
      ::testing::HasSubstr("train.batch_schedule's batch = 72 is not a whole number of ghost batches of layer"));
  for (const char* model : {"model=own", "model=lenet"}) {
    EXPECT_THAT(refusal(testing::normalised_task(16), {model, "train.ghost_batch=8", "train.micro_batch=24"}),
                ::testing::HasSubstr("train.micro_batch = 24 is not a whole number of ghost batches of 16 examples"))
        << model;
    EXPECT_THAT(refusal(testing::normalised_task(0), {model, "train.ghost_batch=32", "train.micro_batch=32"}),
                ::testing::HasSubstr("train.micro_batch = 32 is not a whole number of ghost batches of 64 examples"))
        << model;
  }
}

}  // namespace
}  // namespace covnoise
