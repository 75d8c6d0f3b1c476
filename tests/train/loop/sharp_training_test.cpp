// Trainings with train.sharpness: what they compute, say and refuse, and that they resume bit for bit.
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/checkpoint.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"
#include "train/stepped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Five steps with plain SGD: on a GPU as it is, captured, replayed.
Config sharp_config(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"train.sharpness=0.2",    "train.sharpness_batch=4",
                                       "train.ghost_batch=4",    "train.momentum=0",
                                       "train.weight_decay=0",   "train.schedule=constant",
                                       "run.deterministic=true", "run.device=" + testing::device_name()};
  settings.push_back(testing::device().is_cpu() ? "train.precision=fp64" : "train.precision=fp32");
  settings.insert(settings.end(), more.begin(), more.end());
  return testing::stepped_config(model, 5, settings);
}

/// The formula by plain autograd in every `every`th step from step `begin` on; otherwise plain SGD.
at::Tensor sharp_by_hand(const Config& config, const DataSource& source, std::vector<double>& losses,
                         std::int64_t begin = 0, std::int64_t every = 1) {
  const DeviceStream stream(testing::device());
  const Split split = make_split(source, config);
  const auto model = initial_model(config, source, testing::device());
  model->train();
  FlatParameters parameters(*model);
  const double share = static_cast<double>(config.train.sharpness_batch) / static_cast<double>(config.train.batch);
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto theta = parameters.values().clone();
    auto sum = parameters.zeros();
    losses.push_back(0);
    const auto order = split.train.order(step);
    for (std::int64_t first = 0; first < config.train.batch; first += config.train.sharpness_batch) {
      const auto indices = order.narrow(0, first, config.train.sharpness_batch);
      const auto images = split.train.images(indices, step), labels = split.train.labels(indices);
      const auto gradient = [&] {  // of this micro-batch, at the weights that the network has
        parameters.gradient().zero_();
        const auto loss = cross_entropy(model->forward(images), labels).values.mean();
        loss.backward();
        losses.back() += parameters.values().equal(theta) ? share * loss.item<double>() : 0;
        return parameters.gradient().clone();
      };
      const auto up = gradient();
      if (step >= begin && step % every == 0) {
        parameters.values().add_(up * (config.train.sharpness / up.norm()));
        sum += gradient() * share;
        parameters.values().copy_(theta);
      } else {
        sum += up * share;
      }
    }
    parameters.values().sub_(sum, 0.02);
  }
  return parameters.values().cpu();
}

TEST(SharpTraining, FollowsTheFormula) {
  for (const std::string model : {"mlp", "resnet8"}) {
    const auto config = sharp_config(model);
    const auto source = testing::random_images();
    const auto actual = testing::stepped_as(nullptr, config, source, {});
    std::vector<double> losses;
    const auto expected = sharp_by_hand(config, source, losses);
    const double tolerance = testing::device().is_cpu() ? 1e-9 : 2e-3;
    const double error = (actual.weights - expected).abs().max().item<double>();
    EXPECT_LT(error, tolerance) << model;
    for (std::size_t step = 0; step < 5; ++step) EXPECT_NEAR(actual.results[step].loss, losses[step], tolerance);
    auto plain = config;
    plain.train.sharpness = 0;
    const auto without = testing::stepped_as(nullptr, plain, source, {});
    EXPECT_GT((actual.weights - without.weights).abs().max().item<double>(), 5 * error + 1e-6) << model;
  }
}

/// Steps before it pass over the whole batch at once; of five, those from the third on are sharp.
TEST(SharpTraining, BeginsAfterItsShareOfTheTraining) {
  for (const std::string model : {"mlp", "resnet8"}) {
    const auto config = sharp_config(model, {"train.sharpness_after=0.4"});
    EXPECT_EQ(config.train.micro_batch, testing::kSteppedBatch);
    const auto source = testing::random_images();
    const auto actual = testing::stepped_as(nullptr, config, source, {});
    std::vector<double> losses, others;
    const auto expected = sharp_by_hand(config, source, losses, 2);
    const double tolerance = testing::device().is_cpu() ? 1e-9 : 2e-3;
    const double error = (actual.weights - expected).abs().max().item<double>();
    EXPECT_LT(error, tolerance) << model;
    for (std::size_t step = 0; step < 5; ++step) EXPECT_NEAR(actual.results[step].loss, losses[step], tolerance);
    for (const std::int64_t begin : {1, 3})
      EXPECT_GT((actual.weights - sharp_by_hand(config, source, others, begin)).abs().max().item<double>(),
                5 * error + 1e-6)
          << model << begin;
  }
}

/// Of five steps, the first, third and fifth are sharp.
TEST(SharpTraining, MaySkipSteps) {
  for (const std::string model : {"mlp", "resnet8"}) {
    const auto config = sharp_config(model, {"train.sharpness_every=2"});
    EXPECT_EQ(config.train.micro_batch, testing::kSteppedBatch);
    const auto source = testing::random_images();
    const auto actual = testing::stepped_as(nullptr, config, source, {});
    std::vector<double> losses, others;
    const auto difference = [&](std::vector<double>& own, std::int64_t every) {
      return (actual.weights - sharp_by_hand(config, source, own, 0, every)).abs().max().item<double>();
    };
    const double tolerance = testing::device().is_cpu() ? 1e-9 : 2e-3;
    const double error = difference(losses, 2);
    EXPECT_LT(error, tolerance) << model;
    for (std::size_t step = 0; step < 5; ++step) EXPECT_NEAR(actual.results[step].loss, losses[step], tolerance);
    for (const std::int64_t every : {1, 3}) EXPECT_GT(difference(others, every), 5 * error + 1e-6) << model << every;
  }
}

/// theta - rho v / |v|, v the momentum buffer, by plain autograd and float64 arithmetic.
at::Tensor along_momentum_by_hand(const Config& config, const DataSource& source, std::int64_t begin) {
  const DeviceStream stream(testing::device());
  const Split split = make_split(source, config);
  const auto model = initial_model(config, source, testing::device());
  model->train();
  FlatParameters parameters(*model);
  auto v = parameters.zeros();
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto theta = parameters.values().clone();
    const auto order = split.train.order(step);
    if (step >= std::max<std::int64_t>(begin, 1))  // the first step has no momentum yet
      parameters.values().sub_(v, config.train.sharpness / v.norm().item<double>());
    parameters.gradient().zero_();
    cross_entropy(model->forward(split.train.images(order, step)), split.train.labels(order)).values.mean().backward();
    v = config.train.momentum * v + parameters.gradient();
    parameters.values().copy_(theta - 0.02 * v);
  }
  return parameters.values().cpu();
}

TEST(SharpTraining, AlongTheMomentumTakesOnePass) {
  for (const std::int64_t begin : {0, 2}) {
    const auto config = sharp_config("resnet8", {"train.momentum=0.9", "train.sharpness_along=momentum",
                                                 "train.sharpness_after=" + std::string(begin == 0 ? "0" : "0.4")});
    EXPECT_EQ(config.train.micro_batch, testing::kSteppedBatch);
    const auto source = testing::random_images();
    const auto actual = testing::stepped_as(nullptr, config, source, {});
    const double tolerance = testing::device().is_cpu() ? 1e-9 : 2e-3;
    const auto difference = [&](std::int64_t from) {
      return (actual.weights - along_momentum_by_hand(config, source, from)).abs().max().item<double>();
    };
    EXPECT_LT(difference(begin), tolerance);
    EXPECT_GT(difference(begin + 2), 5 * difference(begin) + 1e-6);
  }
}

/// The whole batch as one micro-batch is another training.
TEST(SharpTraining, DependsOnItsMicroBatch) {
  const auto source = testing::random_images();
  const auto small = testing::stepped_as(nullptr, sharp_config("mlp"), source, {});
  const auto large = testing::stepped_as(nullptr, sharp_config("mlp", {"train.sharpness_batch=16"}), source, {});
  EXPECT_GT((small.weights - large.weights).abs().max().item<double>(), 1e-6);
}

TEST(SharpTraining, ResumesBitForBitAndSaysWhatItDoes) {
  const testing::TemporaryFolder folder;
  for (const std::string placement : {"update", "weights", "late", "momentum", "sometimes"}) {
    TrainOptions options = testing::small_run("lb-diag", placement == "weights" ? "c1" : "resnet8");
    options.config.train.sharpness = 0.1;
    options.config.train.sharpness_batch = 32;
    if (placement == "late") options.config.train.sharpness_after = 0.5;
    if (placement == "momentum") options.config.train.sharpness_along = "momentum";
    if (placement == "sometimes") options.config.train.sharpness_every = 2;
    if (placement == "weights") options.config.noise.placement = Placement::kWeights, options.config.noise.radius = 0.1;
    std::string said;
    options.say = [&](const std::string& line) { said += line + "\n"; };
    const auto file_of = [&](const char* file) {
      return read_file(CheckpointStore(options.out / "checkpoints").list().back().path / file);
    };
    options.out = folder / (placement + "-calm");
    ASSERT_EQ(train(options), Outcome::kFinished);
    const std::string along = placement == "momentum" ? "along the momentum" : "by micro-batches of 32";
    const std::string begin = placement == "late"        ? " after 50 % of the training"
                              : placement == "sometimes" ? " every 2 steps"
                                                         : "";
    EXPECT_THAT(said, HasSubstr("; sharpness 0.1 " + along + begin + "; noise diag-fisher (ghost, groups"));
    const auto model = file_of("model.safetensors"), optimizer = file_of("optimizer.safetensors");
    options.out = folder / (placement + "-interrupted");
    int steps = 0;
    options.stop_requested = [&] { return ++steps == 3; };
    ASSERT_EQ(train(options), Outcome::kInterrupted);
    options.stop_requested = [] { return false; };
    ASSERT_EQ(train(options), Outcome::kFinished);
    EXPECT_EQ(file_of("model.safetensors"), model) << placement;
    EXPECT_EQ(file_of("optimizer.safetensors"), optimizer) << placement;
  }
}

/// A small batch at the start is one micro-batch; it does not make those of the large one smaller.
TEST(SharpTraining, KeepsItsMicroBatchesAfterASmallBatch) {
  auto config = load_config(std::nullopt, {"regime=batch-change", "train.sharpness=0.1", "train.sharpness_batch=512"});
  resolve_defaults(config);
  check_config(config);
  EXPECT_EQ(config.train.sharpness_batch, 512);
}

TEST(SharpTraining, RefusesMicroBatchesThatDoNotFit) {
  const auto refused = [](std::vector<std::string> settings, const std::string& why) {
    settings.insert(settings.end(), {"model=resnet8", "train.batch=256", "train.sharpness=0.1"});
    EXPECT_THAT([&] { load_config(std::nullopt, settings); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({"train.sharpness_batch=96", "train.ghost_batch=64"}, "256 examples is not a multiple of train.sharpness_b");
  refused({"train.sharpness_batch=32", "train.ghost_batch=64"},
          "train.sharpness_batch = 32 is not a whole number of ghost batches of 64 examples");
  refused({"train.sharpness_batch=128", "train.ghost_batch=0"}, "not a whole number of ghost batches of 256");
  refused({"train.sharpness_batch=128", "train.micro_batch=256"},
          "train.micro_batch = 256 is not train.sharpness_batch = 128");
  refused({"noise.penalty=0.01"}, "train.sharpness = 0.1 moves them; set one of them to 0");
  refused({"train.sharpness_batch=0"}, "must be at least 1");
  refused({"train.sharpness_after=1"}, "train.sharpness_after");
  refused({"train.sharpness_every=0"}, "train.sharpness_every");
  refused({"train.sharpness_along=descent"}, "train.sharpness_along");
  refused({"train.sharpness_along=momentum", "train.momentum=0"}, "needs a momentum");
  load_config(std::nullopt, {"train.sharpness=0", "train.sharpness_along=momentum", "train.momentum=0"});
  auto config = load_config(std::nullopt, {"train.batch=64", "train.ghost_batch=64", "train.sharpness=0.1"});
  resolve_defaults(config);
  EXPECT_EQ(config.train.sharpness_batch, 64);
  EXPECT_EQ(config.train.micro_batch, 64);
}

}  // namespace
}  // namespace covnoise
