#include "covnoise/train/noisy_gradient.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/random.h"
#include "covnoise/train/sgd.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <cmath>

namespace covnoise {
namespace {

struct Points {
  at::Tensor x, y;
};

/// Of PyTorch's own layers.
struct PlainNetwork : torch::nn::Module {
  torch::nn::Linear in{register_module("in", torch::nn::Linear(3, 5))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(5, 1))};
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

Losses point_losses(PlainNetwork& network, const Points& points) {
  return mean_squared_error(network.forward(points.x), points.y);
}

std::shared_ptr<PlainNetwork> plain_network() {
  torch::manual_seed(6);
  auto network = std::make_shared<PlainNetwork>();
  network->to(testing::device(), at::kDouble);
  return network;
}

Points points() {
  auto generator = at::detail::createCPUGenerator(5);
  const auto options = torch::dtype(torch::kFloat64);
  return {testing::on_device(torch::randn({16, 3}, generator, options)),
          testing::on_device(torch::randn({16, 1}, generator, options))};
}

NoiseOptions noise_options(const std::string& structure) {
  NoiseOptions noise;
  noise.structure = structure;
  noise.small_batch = 4;
  return noise;
}

at::Tensor weights(const torch::nn::Module& network) { return testing::flattened(network.parameters()); }

double difference_of(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(NoisyGradient, WithoutNoiseIsTheLossesOwnBackward) {
  const auto ours = plain_network(), theirs = plain_network();
  torch::optim::SGD our_sgd(ours->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD their_sgd(theirs->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  NoisyGradient gradient(*ours, loss_on<Points>(*ours, point_losses), noise_options("none"), our_sgd);
  for (int step = 0; step < 4; ++step) {
    our_sgd.zero_grad();
    const auto loss = gradient.backward(points());
    our_sgd.step();
    their_sgd.zero_grad();
    const auto expected = point_losses(*theirs, points()).values.mean();
    expected.backward();
    their_sgd.step();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
  }
  EXPECT_LT(difference_of(weights(*ours), weights(*theirs)), 1e-12);
}

/// Gradients that an optimizer took away (zero_grad of newer versions) come back.
TEST(NoisyGradient, SurvivesGradientsThatAreTakenAway) {
  const auto network = plain_network();
  torch::optim::SGD sgd(network->parameters(), 0.1);
  NoisyGradient gradient(*network, loss_on<Points>(*network, point_losses), noise_options("none"), sgd);
  gradient.backward(points());
  std::vector<at::Tensor> first;
  for (auto& parameter : network->parameters()) {
    first.push_back(parameter.grad().clone());
    parameter.mutable_grad() = at::Tensor();
  }
  gradient.backward(points());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(network->parameters()[i].grad().equal(first[i]));
}

/// Norms to which gradient and noise are clipped, and where the noise goes.
struct OptimizerCase {
  bool nesterov = false;
  double clip_norm = 0, noise_clip_norm = 0;
  Placement placement = Placement::kUpdate;
  bool match = false;
};

NoiseOptions options_of(const OptimizerCase& one) {
  auto noise = noise_options("diag-fisher");  // by micro-batches: the layers are PyTorch's
  noise.clip_norm = one.noise_clip_norm;
  noise.placement = one.placement;
  noise.scale.match = one.match;
  noise.match_lr = 0.06;
  return noise;
}

/// Noise after PyTorch's momentum buffer, or through it, is that of our own optimizer, also where both are clipped by
/// one factor, which is another one in each step, or apart.
TEST(NoisyGradient, EqualsOurOptimizer) {
  for (const auto& one : std::vector<OptimizerCase>{{},
                                                    {true},
                                                    {false, 0.5},
                                                    {true, 0.5},
                                                    {false, 0.5, 0.25},
                                                    {false, 0.5, 0, Placement::kGradient},
                                                    {false, 0.5, 0, Placement::kUpdate, true}}) {
    const auto ours = plain_network(), theirs = plain_network();
    const auto noise = options_of(one);
    FlatParameters parameters(*ours);
    GradientPass pass(*ours, loss_on<Points>(*ours, point_losses), parameters, {});
    Injection injection(noise, *ours);
    Sgd own(parameters, {0.9, one.nesterov, 0.01, one.clip_norm, {}, one.noise_clip_norm == 0});
    torch::optim::SGD sgd(theirs->parameters(),
                          torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(one.nesterov).weight_decay(0.01));
    NoisyGradient::Options options;
    options.clip_norm = one.clip_norm;
    NoisyGradient gradient(*theirs, loss_on<Points>(*theirs, point_losses), noise, sgd, options);
    EXPECT_EQ(gradient.injection().estimator(), "micro");
    const auto before = weights(*ours).clone();
    for (std::int64_t step = 0; step < 5; ++step) {
      StepContext context;
      context.step = step;
      context.batch = 16;
      context.lr = 0.05;
      context.momentum = 0.9;
      context.clip_norm = one.clip_norm;
      pass.begin({injection.needs(context), 0, static_cast<std::uint32_t>(step)});
      for (std::int64_t i = 0; i < 4; ++i)
        pass.add(Points{points().x.narrow(0, 4 * i, 4), points().y.narrow(0, 4 * i, 4)});
      auto drawn = injection.clipped(injection.draw(pass.finish(), context)).first;
      const auto scale = injection.clipped_scale(drawn, parameters.gradient(), context);
      EXPECT_EQ(scale.defined(), one.match);
      if (one.match) drawn = {drawn.tensor() * scale, {}, 1, {}};
      EXPECT_TRUE(one.clip_norm == 0 || parameters.gradient().norm().item<double>() > one.clip_norm);
      own.step(0.05, drawn, one.placement);
      gradient.backward(points());
      sgd.step();
    }
    EXPECT_GT(difference_of(weights(*ours), before), 1e-3);
    EXPECT_LT(difference_of(weights(*ours), weights(*theirs)), 1e-12)
        << one.nesterov << " " << one.clip_norm << " " << one.noise_clip_norm << " " << one.match;
  }
}

TEST(NoisyGradient, HasNoiseOfAtMostTheClipNorm) {
  const auto network = plain_network();
  torch::optim::SGD sgd(network->parameters(), torch::optim::SGDOptions(0.1));
  auto noise = noise_options("diag-fisher");
  noise.placement = Placement::kGradient;
  noise.clip_norm = 1e-3;
  point_losses(*network, points()).values.mean().backward();
  const auto gradient_of = [&] {
    std::vector<at::Tensor> parts;
    for (const auto& parameter : network->parameters()) parts.push_back(parameter.grad());
    return testing::flattened(parts).clone();
  };
  const auto plain = gradient_of();
  NoisyGradient gradient(*network, loss_on<Points>(*network, point_losses), noise, sgd);
  gradient.backward(points());
  EXPECT_NEAR((gradient_of() - plain).norm().item<double>(), 1e-3, 1e-9);
}

/// Half-way through the warm-up of both batches: a (1/M_L + s^2) = f a_S / M_S with f = 1/2, a = a_S / 2.
TEST(NoisyGradient, MatchesTheSmallBatchAtThisMomentOfItsSchedule) {
  auto noise = noise_options("diag-fisher");
  noise.placement = Placement::kGradient;
  noise.scale.match = true;
  noise.match_lr = 0.06;
  noise.match_momentum = 0;
  const auto noise_of = [&](double lr, double factor) {
    const auto network = plain_network();
    torch::optim::SGD sgd(network->parameters(), torch::optim::SGDOptions(lr));
    NoisyGradient gradient(*network, loss_on<Points>(*network, point_losses), noise, sgd);
    gradient.set_match_factor(factor);
    gradient.backward(points());
    std::vector<at::Tensor> parts;
    for (const auto& parameter : network->parameters()) parts.push_back(parameter.grad());
    const auto loss = point_losses(*network, points()).values.mean();
    return testing::flattened(parts) - testing::flattened(torch::autograd::grad({loss}, network->parameters()));
  };
  const auto whole = noise_of(0.1, 1);
  EXPECT_GT(whole.norm().item<double>(), 0.01);
  EXPECT_LT(difference_of(noise_of(0.05, 0.5), whole), 1e-12);
  const double quarter = std::sqrt((0.75 * 0.6 / 4 - 1.0 / 16) / (0.6 / 4 - 1.0 / 16));
  EXPECT_LT(difference_of(noise_of(0.1, 0.75), quarter * whole), 1e-12);
  EXPECT_THROW(noise_of(0.1, -1), Error);
}

/// The gradient of L + (lambda/2) |g|^2, by second derivatives.
TEST(NoisyGradient, AddsThePenalty) {
  const auto network = plain_network();
  torch::optim::SGD sgd(network->parameters(), 0.1);
  auto noise = noise_options("none");
  noise.group = 16;  // one group: its sign does not matter
  noise.penalty = 0.3;
  noise.penalty_step = 1e-6;
  NoisyGradient::Options options;
  options.micro_batch = 8;
  NoisyGradient gradient(*network, loss_on<Points>(*network, point_losses), noise, sgd, options);
  gradient.backward(points());
  std::vector<at::Tensor> actual;
  for (const auto& parameter : network->parameters()) actual.push_back(parameter.grad().clone());
  const auto loss = point_losses(*network, points()).values.mean();
  auto total = loss;
  for (const auto& g : torch::autograd::grad({loss}, network->parameters(), {}, true, true))
    total = total + g.square().sum() * (noise.penalty / 2);
  const auto expected = testing::flattened(torch::autograd::grad({total}, network->parameters()));
  const auto plain = testing::flattened(
      torch::autograd::grad({point_losses(*network, points()).values.mean()}, network->parameters()));
  EXPECT_LT(difference_of(testing::flattened(actual), expected), 1e-5 * difference_of(plain, expected));
}

/// With any optimizer: the gradient at weights with the noise of the step before, which is gone afterwards.
TEST(NoisyGradient, InTheWeightsTakesTheGradientThere) {
  const auto ours = plain_network(), theirs = plain_network();
  torch::optim::Adam our_adam(ours->parameters(), 0.01), their_adam(theirs->parameters(), 0.01);
  auto noise = noise_options("isotropic");
  noise.placement = Placement::kWeights;
  noise.radius = 0.5;
  NoisyGradient gradient(*ours, loss_on<Points>(*ours, point_losses), noise, our_adam);
  FlatParameters parameters(*theirs);
  for (std::uint32_t step = 0; step < 4; ++step) {
    gradient.backward(points());
    our_adam.step();
    const auto theta = parameters.values().clone();
    if (step > 0) {
      auto added = parameters.zeros();
      fill_normal(added, {0, Purpose::kNoise, step - 1});
      parameters.clear_gaps(added);
      parameters.values().add_(added * (0.5 / added.norm()));
    }
    std::vector<at::Tensor> tensors = theirs->parameters();
    const auto found = torch::autograd::grad({point_losses(*theirs, points()).values.mean()}, tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].mutable_grad() = found[i];
    parameters.values().copy_(theta);
    their_adam.step();
    EXPECT_LT(difference_of(weights(*ours), weights(*theirs)), 1e-12) << step;
  }
}

TEST(NoisyGradient, StopsAfterItsShareOfTheSteps) {
  const auto network = plain_network();
  torch::optim::SGD sgd(network->parameters(), 0.1);
  NoisyGradient::Options options;
  options.steps = 8;
  NoisyGradient noisy(*network, loss_on<Points>(*network, point_losses), noise_options("isotropic"), sgd, options);
  std::vector<at::Tensor> gradients;
  for (int step = 0; step < 4; ++step) {
    noisy.backward(points());
    gradients.push_back(network->out->weight.grad().clone());
  }
  EXPECT_FALSE(gradients[0].equal(gradients[1]));  // a quarter of 8 steps has noise
  EXPECT_TRUE(gradients[2].equal(gradients[3]));
}

/// The gradient of this loss does not depend on the weights, so they move by the noise n_t alone: by the sum of -a n_t,
/// whatever the momentum of a step is, also long after the noise has stopped.
TEST(NoisyGradient, InTheUpdateFollowsTheMomentumOfTheOptimizer) {
  const auto linear = [](PlainNetwork& network, const Points& examples) {
    return Losses{network.out->weight.sum() * torch::ones_like(examples.y).flatten()};
  };
  const auto moved = [&](const std::string& structure) {
    const auto network = plain_network();
    torch::optim::SGD sgd(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
    NoisyGradient::Options options;
    options.steps = 8;  // two of them with noise
    NoisyGradient noisy(*network, loss_on<Points>(*network, linear), noise_options(structure), sgd, options);
    for (int step = 0; step < 8; ++step) {
      noisy.backward(points());
      sgd.step();
      static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options()).momentum(0.9);
    }
    return weights(*network);
  };
  const auto network = plain_network();
  FlatParameters parameters(*network);
  auto expected = parameters.zeros();
  for (std::uint32_t step = 0; step < 2; ++step) {
    auto noise = parameters.zeros();
    fill_normal(noise, {0, Purpose::kNoise, step});
    parameters.clear_gaps(noise);
    expected.sub_(noise, 0.1 * noise_options("isotropic").sigma);
  }
  parameters.values().copy_(expected);
  EXPECT_LT(difference_of(moved("isotropic") - moved("none"), weights(*network)), 1e-12);
}

TEST(NoisyGradient, RefusesTheUpdatePlacementForOtherOptimizers) {
  const auto network = plain_network();
  torch::optim::Adam adam(network->parameters(), 0.1);
  auto noise = noise_options("diag-fisher");
  const auto make = [&] { NoisyGradient(*network, loss_on<Points>(*network, point_losses), noise, adam); };
  EXPECT_THAT(make, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("noise.placement = \"update\"")));
  noise.placement = Placement::kGradient;
  make();
  noise.scale.match = true;
  noise.match_lr = 0.1;
  EXPECT_THAT(make, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("noise.scale = \"match\" compares")));
}

}  // namespace
}  // namespace covnoise
