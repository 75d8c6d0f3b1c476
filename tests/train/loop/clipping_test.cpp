// train.clip_norm covers the noise: one factor on gradient and noise, by the norm of their sum; or noise.clip_norm
// clips the noise apart.
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/sgd.h"
#include "support/small_networks.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

at::Tensor normals_like_parameters(const FlatParameters& parameters, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  auto values = torch::randn({parameters.size()}, generator, torch::dtype(torch::kFloat64));
  parameters.clear_gaps(values);
  return testing::on_device(values);
}

struct ClippingCase {
  Placement placement;
  bool nesterov, by_variance, together = true;
};

class Clipping : public ::testing::TestWithParam<ClippingCase> {};

/// Two steps, so that the momentum buffer shows what was added to it.
TEST_P(Clipping, HasOneFactorForGradientAndNoiseOrOfTheGradientAlone) {
  const auto [placement, nesterov, by_variance, together] = GetParam();
  const auto network = testing::make_small_network("mlp", at::kDouble);
  FlatParameters parameters(*network);
  constexpr double kLr = 0.3, kMomentum = 0.9, kDecay = 0.01;
  for (const double clip_norm : {0.5, 1e3}) {
    Sgd sgd(parameters, {kMomentum, nesterov, kDecay, clip_norm, {}, together});
    auto theta = parameters.values().clone(), b = parameters.zeros();
    for (std::uint32_t step = 0; step < 2; ++step) {
      const auto g = normals_like_parameters(parameters, 2 * step);
      StepNoise noise;
      if (by_variance) {
        noise = {{}, normals_like_parameters(parameters, 100 + step).square(), 0.7, {3, Purpose::kNoise, step}};
      } else {
        noise.values = normals_like_parameters(parameters, 2 * step + 1);
      }
      const auto n = noise.tensor();
      parameters.gradient().copy_(g);
      const auto factor = sgd.step(kLr, noise, placement);
      const double c = std::min(1.0, clip_norm / (together ? g + n : g).norm().item<double>());
      EXPECT_NEAR(factor.item<double>(), c, 1e-12);
      EXPECT_EQ(c < 1, clip_norm < 1);
      const bool in_gradient = placement == Placement::kGradient;
      const auto added = together ? c * n : n;
      const auto d = (in_gradient ? c * g + added : c * g) + kDecay * theta;
      b = kMomentum * b + d;
      const auto direction = nesterov ? d + kMomentum * b : b;
      theta = theta - kLr * (in_gradient ? direction : direction + added);
      EXPECT_TRUE(parameters.values().allclose(theta, 1e-12, 1e-12));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Clipping,
                         ::testing::Values(ClippingCase{Placement::kUpdate, false, false},
                                           ClippingCase{Placement::kUpdate, true, true},
                                           ClippingCase{Placement::kGradient, false, true},
                                           ClippingCase{Placement::kGradient, true, false},
                                           ClippingCase{Placement::kUpdate, false, true, false},
                                           ClippingCase{Placement::kGradient, true, false, false}),
                         [](const auto& info) {
                           return std::string(info.param.placement == Placement::kUpdate ? "Update" : "Gradient") +
                                  (info.param.nesterov ? "Nesterov" : "") +
                                  (info.param.by_variance ? "ByVariance" : "ByValues") +
                                  (info.param.together ? "" : "Apart");
                         });

/// Where the decay spares some parameters, g and n are clipped before it is added: in two steps with momentum.
TEST(Clipping, LeavesPatternsWithoutDecay) {
  for (const bool together : {false, true}) {
    const auto network = testing::make_small_network("mlp", at::kDouble);
    FlatParameters parameters(*network);
    auto theta = parameters.values().clone(), b = parameters.zeros();
    const auto mask = decay_mask(parameters, {"*.bias"});
    Sgd sgd(parameters, {0.9, false, 0.5, 0.3, {"*.bias"}, together});
    for (std::uint64_t step = 0; step < 2; ++step) {
      const auto g = normals_like_parameters(parameters, 2 * step),
                 n = normals_like_parameters(parameters, 2 * step + 1);
      parameters.gradient().copy_(g);
      const auto c = sgd.step(0.1, {n, {}, 1, {}}, Placement::kUpdate);
      EXPECT_NEAR(c.item<double>(), 0.3 / (together ? g + n : g).norm().item<double>(), 1e-12);
      b = 0.9 * b + c * g + 0.5 * mask * theta;
      theta = theta - 0.1 * (b + (together ? c * n : n));
      EXPECT_TRUE(parameters.values().allclose(theta, 1e-12, 1e-12)) << together << step;
    }
  }
}

/// The metrics of a training with diagonal Fisher noise whose gradients are clipped hard.
auto clipped_training(double noise_clip_norm = 0) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.config.train.clip_norm = 0.05;
  options.config.noise.clip_norm = noise_clip_norm;
  options.out = folder / "run";
  train(options);
  return read_metrics(options.out);
}

TEST(ClippedTraining, RecordsTheFactorAndTheTemperaturesItLeaves) {
  const auto records = clipped_training();
  const auto& first = records.front();
  const double factor = first["clip_factor"].get<double>();
  // g and n are nearly orthogonal: independent, with 10^5 elements each.
  EXPECT_NEAR(factor, 0.05 / std::hypot(first["grad_norm"].get<double>(), first["noise_norm"].get<double>()),
              0.05 * factor);
  EXPECT_NEAR(first["temperature"].get<double>(), factor * 0.01 / 0.1 / 64, 1e-12);
  EXPECT_NEAR(first["noise_temperature"].get<double>(), factor * 0.01 * 0.1 * (1.0 / 16 - 1.0 / 64), 1e-12);
}

/// Noise of variance c_n^2 s^2 C beside a gradient whose learning rate is c_g a: the noise's temperature is theirs.
TEST(ClippedTraining, WithNoiseClippedApartRecordsBothFactors) {
  const auto first = clipped_training(0.02).front();
  const double gradient = first["clip_factor"].get<double>(), noise = first["noise_clip_factor"].get<double>();
  EXPECT_NEAR(gradient, 0.05 / first["grad_norm"].get<double>(), 1e-5 * gradient);
  EXPECT_NEAR(noise, 0.02 / first["noise_norm"].get<double>(), 1e-5 * noise);
  EXPECT_NEAR(first["temperature"].get<double>(), gradient * 0.01 / 0.1 / 64, 1e-12);
  EXPECT_NEAR(first["noise_temperature"].get<double>(), noise * noise / gradient * 0.01 * 0.1 * (1.0 / 16 - 1.0 / 64),
              1e-12);
}

TEST(ClippedTraining, RecordsTheMeanFactorsOfAnEpoch) {
  double sum = 0, noise_sum = 0;
  int steps = 0, epochs = 0;
  for (const auto& record : clipped_training(0.02)) {
    if (record["kind"] == "step") {
      sum += record["clip_factor"].get<double>();
      noise_sum += record["noise_clip_factor"].get<double>();
      ++steps;
    } else if (record["kind"] == "epoch") {
      ASSERT_GT(steps, 1);
      EXPECT_DOUBLE_EQ(record["clip_factor"].get<double>(), sum / steps);
      EXPECT_DOUBLE_EQ(record["noise_clip_factor"].get<double>(), noise_sum / steps);
      sum = noise_sum = steps = 0;
      ++epochs;
    }
  }
  EXPECT_GT(epochs, 1);
}

/// What a training of four epochs says about the clipping of its noise; interrupted after the first.
std::vector<std::string> said_of_clipping(const std::filesystem::path& out, double noise_clip_norm, double stop_after,
                                          double penalty = 0) {
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.config.train.epochs = 4;
  options.config.train.clip_norm = 0.05;
  options.config.noise.small_batch = options.config.noise.group = 1;
  options.config.noise.clip_norm = noise_clip_norm;
  options.config.noise.stop_after = stop_after;
  options.config.noise.penalty = penalty;
  options.out = out;
  return testing::said_when_resumed(options, "clipped together", 3);  // in the second of epochs of 2 steps
}

/// Once, also by a run that was resumed; the number is the mean of its factors over that of the gradients alone.
TEST(ClippedTraining, SaysThatTheNoiseTakesTheLearningRate) {
  const testing::TemporaryFolder folder;
  const auto said = said_of_clipping(folder / "together", 0, 0.75);
  double clipped = 0, alone = 0;
  std::vector<std::string> recorded;
  for (const auto& record : read_metrics(folder / "together")) {
    if (record["kind"] == "step" && record["epoch"] == 1) {
      clipped += record["clip_factor"].get<double>();
      alone += std::min(1.0, 0.05 / record["grad_norm"].get<double>());
    }
    if (record["kind"] == "warning") recorded.push_back(record["about"]);
  }
  ASSERT_GT(clipped, 0);
  EXPECT_LT(clipped / alone, 0.7);
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr(fmt::format("in epoch 1 the noise, which is clipped together with the "
                                                            "gradient, leaves it {:.2f} of its learning rate",
                                                            clipped / alone)),
                                      HasSubstr("clip the noise apart (noise.clip_norm=0.2)"))));
  EXPECT_THAT(recorded, ::testing::Contains("clipping"));
  EXPECT_TRUE(said_of_clipping(folder / "apart", 0.2, 0.75).empty());
  EXPECT_TRUE(said_of_clipping(folder / "lasting", 0, 1).empty()) << "nothing returns at once";
  EXPECT_TRUE(said_of_clipping(folder / "penalty", 0, 0.75, 0.1).empty()) << "which is clipped as well";
}

TEST(ClippedTraining, HasTheMatchedTemperature) {
  const testing::TemporaryFolder folder;
  for (const auto placement : {Placement::kUpdate, Placement::kGradient}) {
    TrainOptions options = testing::small_run("lb-diag-match", "mlp");
    options.config.noise.placement = placement;
    options.config.noise.match_lr = 0.005;
    options.config.train.clip_norm = 1;
    options.out = folder / (placement == Placement::kUpdate ? "update" : "gradient");
    train(options);
    const auto first = read_metrics(options.out).front();
    EXPECT_LT(first["clip_factor"].get<double>(), 0.9) << first;
    const double sum = first["temperature"].get<double>() + first["noise_temperature"].get<double>();
    EXPECT_NEAR(sum / (0.005 / 0.1 / 16), 1, 0.05);  // g and n are nearly orthogonal
  }
}

/// The configuration of the small batch whose temperature a run of small_run("lb-diag-match") matches.
Config matched_small_batch(Config config, const std::string& schedule, double warmup) {
  config.train.batch = 16;
  config.train.lr = 0.005;
  config.train.schedule = schedule;
  config.train.warmup = warmup;
  return config;
}

/// At every step the temperatures of gradient and noise add up to the small batch's: by its own schedule and warm-up,
/// which are not those of the large one. A step of the large batch is four of the small: the last of them while that
/// warms up, the first afterwards.
TEST(MatchedTraining, HasTheSmallBatchsTemperatureAtEveryStep) {
  const testing::TemporaryFolder folder;
  for (const std::string schedule : {"step", "cosine", "constant", ""}) {
    for (const auto placement : {Placement::kUpdate, Placement::kGradient}) {
      TrainOptions options = testing::small_run("lb-diag-match", "mlp");
      auto& config = options.config;
      config.train.schedule = "cosine";
      config.train.warmup = 3;
      config.train.epochs = 8;
      config.noise.placement = placement;
      config.noise.match_lr = 0.005;
      config.noise.match_schedule = schedule;
      config.noise.match_warmup = schedule.empty() ? -1 : 1;
      options.out = folder / (schedule + (placement == Placement::kUpdate ? "-update" : "-gradient"));
      train(options);
      const double warmup = schedule.empty() ? 3 : 1;
      const Schedule small(matched_small_batch(config, schedule.empty() ? "cosine" : schedule, warmup), 128);
      std::int64_t step = 0;
      for (const auto& record : read_metrics(options.out)) {
        if (record["kind"] != "step") continue;
        const double rate = small.lr(static_cast<double>(step / 2) < warmup ? 4 * step + 3 : 4 * step);
        const double alone = record["temperature"].get<double>();
        const double sum = alone + record["noise_temperature"].get<double>();
        double wanted = rate / 0.1 / 16;
        // The noise in the gradient is at most what the large batch lacks at its own learning rate.
        if (placement == Placement::kGradient) wanted = std::min(wanted, record["lr"].get<double>() / 0.1 / 16);
        EXPECT_NEAR(sum / std::max(wanted, alone), 1, 1e-9) << schedule << record;
        ++step;
      }
      EXPECT_EQ(step, 16);
    }
  }
}

TEST(ClippedTraining, HasNoFactorWithoutClipping) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::small_run("lb-diag", "mlp");
  options.config.train.clip_norm = 0;
  options.out = folder / "run";
  train(options);
  const auto records = read_metrics(options.out);
  EXPECT_FALSE(records.front().contains("clip_factor"));
  EXPECT_FALSE(records.front().contains("noise_clip_factor"));
  double squares = 0;
  for (const auto& [name, tensor] :
       CheckpointStore::load(CheckpointStore(options.out / "checkpoints").list().back().path).checkpoint.model)
    squares += tensor.to(at::kDouble).square().sum().item<double>();
  const auto& last_step = records[records.size() - 2];
  ASSERT_EQ(last_step["kind"], "step");
  EXPECT_NEAR(last_step["weight_norm"].get<double>(), std::sqrt(squares), 1e-5 * std::sqrt(squares));
  EXPECT_EQ(last_step["step"], records.back()["step"]);
  EXPECT_EQ(records.back()["weight_norm"], last_step["weight_norm"]) << "an epoch's record has that of its last step";
}

/// With only the gradient clipped the loss of these two is above 10^10 in the second epoch: noise grows with the
/// squares of an exploding gradient.
TEST(ClippedTraining, OfNoiseThatWouldExplodeTrains) {
  const testing::TemporaryFolder folder;
  for (const char* settings : {"update", "gradient"}) {
    const std::string placement = settings;
    TrainOptions options;
    options.data = known_data_sets();
    options.config = load_config(
        std::nullopt,
        {"regime=lb-diag", "model=mlp", "data=glyphs", "train.epochs=6", "data.train_limit=1024", "data.test_limit=256",
         "train.batch=256", "train.clip_norm=1", "train.warmup=0", "train.schedule=step", "noise.stop_after=1",
         "noise.placement=" + placement, placement == "update" ? "train.lr=1" : "train.lr=0.5",
         placement == "update" ? "noise.small_batch=2" : "noise.small_batch=8",
         "run.device=" + testing::device_name()});
    resolve_defaults(options.config);
    options.out = folder / placement;
    ASSERT_EQ(train(options), Outcome::kFinished);
    EXPECT_LT(read_metrics(options.out).back()["train_loss"].get<double>(), 1.3) << placement;
  }
}

}  // namespace
}  // namespace covnoise
