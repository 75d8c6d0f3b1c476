// noise.placement = "weights": theta_(t+1) = theta_t - a g(theta_t + n_t), n_t from the statistics of the step before.
#include "covnoise/nn/internal/other_weights.h"
#include "covnoise/train/adamw.h"
#include "train/stepped.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace covnoise {
namespace {

struct WeightNoiseCase {
  std::string name, model;
  std::vector<std::string> settings;
};

class WeightNoiseTest : public ::testing::TestWithParam<WeightNoiseCase> {};

/// Five steps (on a GPU: as it is, captured, replayed; noise in the second to the fourth) in micro-batches of 4.
Config config_of(const WeightNoiseCase& test) {
  std::vector<std::string> settings = {"noise.placement=weights",
                                       "noise.stop_after=0.8",
                                       "train.micro_batch=4",
                                       "train.schedule=constant",
                                       "train.ghost_batch=4",
                                       "noise.small_batch=4",
                                       "train.warmup=0",
                                       "train.weight_decay=0.01",
                                       "run.deterministic=true",
                                       "run.device=" + testing::device_name(),
                                       "train.precision=" + std::string(testing::device().is_cpu() ? "fp64" : "fp32")};
  settings.insert(settings.end(), test.settings.begin(), test.settings.end());
  return testing::stepped_config(test.model, 5, settings);
}

/// The formula, one step after the other: gradients by plain autograd at theta + n, the sample of the structure from
/// the statistics at the same weights.
struct ByHand {
  explicit ByHand(const Config& config, const DataSource& source)
      : config_(config),
        split_(make_split(source, config)),
        schedule_(config, split_.train.size()),
        model_(initial_model(config, source, training_device(config))),
        parameters_(*model_),
        injection_(config.noise, model_info(config.model).batch_statistics),
        pass_(*model_, [this](const at::Tensor& x) { return model_->forward(x); }, parameters_,
              {config.noise.estimator_group(), 4, {}}),
        adamw_(parameters_, {config.train.momentum, config.train.beta2, config.train.eps, config.train.weight_decay}),
        momentum_(parameters_.zeros()) {
    model_->train();
  }

  StepContext context(std::int64_t step) const {
    StepContext context;
    context.seed = config_.seed;
    context.step = step;
    context.batch = config_.train.batch;
    context.fraction = static_cast<double>(step) / 5;
    return context;
  }

  /// The mean gradient and the noise of the next step, from micro-batches of 4.
  std::pair<at::Tensor, at::Tensor> at_weights(const at::Tensor& weights, std::int64_t step) {
    const torch::NoGradGuard no_grad;
    parameters_.values().copy_(weights);
    const auto order = split_.train.order(step);
    pass_.begin({injection_.needs(context(step)), config_.seed, static_cast<std::uint32_t>(step)});
    auto gradient = parameters_.zeros();
    for (std::int64_t first = 0; first < config_.train.batch; first += 4) {
      const torch::AutoGradMode grad_mode(true);
      const auto indices = order.narrow(0, first, 4);
      const auto images = split_.train.images(indices, step), labels = split_.train.labels(indices);
      pass_.add(images, labels);
      const auto losses = cross_entropy(model_->forward(images), labels).values;
      std::vector<at::Tensor> tensors;
      for (const auto& [name, tensor] : trainable_parameters(*model_)) tensors.push_back(tensor);
      const auto found = torch::autograd::grad({losses.sum() / config_.train.batch}, tensors);
      const auto views = parameters_.views(gradient);
      const torch::NoGradGuard sums;
      for (std::size_t i = 0; i < views.size(); ++i) views[i].add_(found[i]);
    }
    const auto noise = injection_.draw(pass_.finish(), context(step)).tensor();
    return {gradient, noise.defined() ? noise : parameters_.zeros()};
  }

  at::Tensor step(const at::Tensor& theta, const at::Tensor& gradient, double lr) {
    const double limit = config_.train.clip_norm;
    const double c = limit > 0 ? std::min(1.0, limit / gradient.norm().item<double>()) : 1;
    if (config_.train.optimizer == "adamw") {
      parameters_.values().copy_(theta);
      parameters_.gradient().copy_(gradient * c);
      adamw_.step(lr, {}, Placement::kUpdate);
      return parameters_.values().clone();
    }
    momentum_ = config_.train.momentum * momentum_ + c * gradient + config_.train.weight_decay * theta;
    return theta - lr * momentum_;
  }

  at::Tensor train(std::vector<double>& norms) {
    auto theta = parameters_.values().clone(), noise = parameters_.zeros();
    for (std::int64_t number = 0; number < 5; ++number) {
      if (injection_.scale(context(number)) == 0) noise = parameters_.zeros();
      const double norm = noise.norm().item<double>(), radius = config_.noise.radius;
      if (radius > 0 && norm > 0) noise = noise * (radius / norm);
      norms.push_back(noise.norm().item<double>());
      const auto [gradient, next] = at_weights(theta + noise, number);
      theta = step(theta, gradient, schedule_.lr(number));
      noise = next;
    }
    return theta.cpu();
  }

 private:
  const Config& config_;
  Split split_;
  Schedule schedule_;
  std::shared_ptr<Model> model_;
  FlatParameters parameters_;
  Injection injection_;
  GradientPass pass_;
  AdamW adamw_;
  at::Tensor momentum_;
};

TEST_P(WeightNoiseTest, TakesTheGradientAtWeightsWithTheNoiseOfTheStepBefore) {
  const auto config = config_of(GetParam());
  const auto source = testing::random_images();
  const auto actual = testing::stepped_as(nullptr, config, source, {});
  const DeviceStream stream(testing::device());
  std::vector<double> norms;
  const auto expected = ByHand(config, source).train(norms);
  const double tolerance = testing::device().is_cpu() ? 1e-10 : 1e-4;
  const double error = (actual.weights - expected).abs().max().item<double>();
  EXPECT_LT(error, tolerance);
  for (std::size_t step = 0; step < 5; ++step) {
    EXPECT_NEAR(actual.results[step].noise_norm, norms[step], tolerance * (1 + norms[step])) << step;
    EXPECT_EQ(norms[step] > 0, step >= 1 && step <= 3) << step;
  }
  // The noise is not without effect.
  auto silent = config;
  silent.noise.structure = "none";
  const auto without = testing::stepped_as(nullptr, silent, source, {});
  EXPECT_GT((actual.weights - without.weights).abs().max().item<double>(), 10 * error + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Table, WeightNoiseTest,
    ::testing::Values(WeightNoiseCase{"exact", "mlp", {"noise.structure=diag-fisher", "noise.estimator=exact"}},
                      WeightNoiseCase{"exact_radius", "mlp", {"noise.structure=diag-fisher", "noise.radius=0.5"}},
                      WeightNoiseCase{"ghost", "resnet8", {"noise.structure=diag-fisher", "noise.scale=0.1"}},
                      WeightNoiseCase{
                          "micro", "mlp", {"noise.structure=diag-fisher", "noise.estimator=micro", "noise.scale=0.5"}},
                      WeightNoiseCase{"spatial", "lenet", {"noise.structure=diag-fisher", "noise.estimator=spatial"}},
                      WeightNoiseCase{"signs", "mlp", {"noise.structure=diag-fisher", "noise.estimator=signs"}},
                      WeightNoiseCase{"labels", "mlp", {"noise.structure=diag-fisher", "noise.labels=model"}},
                      WeightNoiseCase{"refreshed", "mlp", {"noise.structure=diag-fisher", "noise.refresh=2"}},
                      WeightNoiseCase{"full", "mlp", {"noise.structure=full-fisher"}},
                      WeightNoiseCase{"full_radius", "resnet8", {"noise.structure=full-fisher", "noise.radius=0.1"}},
                      WeightNoiseCase{"true_fisher", "mlp", {"noise.structure=true-fisher"}},
                      WeightNoiseCase{"trace", "mlp", {"noise.structure=fisher-trace"}},
                      WeightNoiseCase{"kfac", "mlp", {"noise.structure=kfac", "noise.scale=0.3"}},
                      WeightNoiseCase{"multiplicative", "mlp", {"noise.structure=multiplicative"}},
                      WeightNoiseCase{"isotropic", "mlp", {"noise.structure=isotropic", "noise.sigma=0.01"}},
                      WeightNoiseCase{"isotropic_radius", "mlp", {"noise.structure=isotropic", "noise.radius=2"}},
                      WeightNoiseCase{"clipped", "mlp", {"noise.structure=full-fisher", "train.clip_norm=0.5"}},
                      WeightNoiseCase{"adamw",
                                      "mlp",
                                      {"noise.structure=diag-fisher", "train.optimizer=adamw", "train.lr=1e-3",
                                       "train.clip_norm=0.5"}}),
    [](const auto& info) { return info.param.name; });

TEST(WeightNoise, LeavesTheWeightsBitForBit) {
  const auto network =
      initial_model(testing::stepped_config("mlp", 1, {}), testing::random_images(), testing::device());
  FlatParameters parameters(*network);
  WeightNoise noise(parameters, 0);
  const auto before = parameters.values().clone();
  auto added = at::full_like(before, 12345.678);  // its difference would be rounded
  parameters.clear_gaps(added);
  noise.set_next({added, {}, 1, {}});
  {
    const OtherWeights in_network(parameters, noise.weights());
    EXPECT_TRUE(at::equal(parameters.values(), before + added));
  }
  EXPECT_TRUE(at::equal(parameters.values(), before));
  EXPECT_FALSE(at::equal((before + added) - added, before));
  noise.clear();
  const OtherWeights nothing(parameters, noise.weights());
  EXPECT_TRUE(at::equal(parameters.values(), before));
}

TEST(WeightNoise, OfARadiusHasThatNormAndZeroStaysZero) {
  const auto network =
      initial_model(testing::stepped_config("mlp", 1, {}), testing::random_images(), testing::device());
  FlatParameters parameters(*network);
  WeightNoise noise(parameters, 100);
  noise.set_next({parameters.values().clone(), {}, 1, {}});
  EXPECT_NEAR(noise.norm().item<double>(), 100, 1e-3);
  noise.set_next({parameters.zeros(), {}, 1, {}});
  EXPECT_EQ(noise.norm().item<double>(), 0);
}

/// A step that is given up (TrainOptions::stop_now) leaves the weights of the step before.
TEST(WeightNoise, IsTakenAwayFromAStepThatIsGivenUp) {
  const auto config = config_of({"", "mlp", {"noise.structure=isotropic", "noise.radius=1"}});
  const auto source = testing::random_images();
  const DeviceStream stream(testing::device());
  const Split split = make_split(source, config);
  const Schedule schedule(config, split.train.size());
  const auto model = initial_model(config, source, testing::device());
  FlatParameters parameters(*model);
  TrainingStep step(config, *model, parameters, schedule);
  step.launch(0, split.train, split.train.order(0), false);
  const auto before = parameters.values().clone();
  at::Tensor during;
  step.set_before_micro_batch([&] {
    during = parameters.values().clone();
    throw std::runtime_error("stop");
  });
  EXPECT_THROW(step.launch(1, split.train, split.train.order(1), false), std::runtime_error);
  EXPECT_NEAR((during - before).norm().item<double>(), 1, 1e-6);
  EXPECT_TRUE(at::equal(parameters.values(), before));
}

}  // namespace
}  // namespace covnoise
