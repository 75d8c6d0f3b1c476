#include "covnoise/train/adamw.h"

#include "covnoise/core/error.h"
#include "covnoise/train/sgd.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace covnoise {
namespace {

/// A gradient for every step, the same for both sides.
at::Tensor gradient_of(const at::Tensor& parameter, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(parameter.sizes(), generator, torch::dtype(torch::kFloat64))
      .to(parameter.device(), parameter.scalar_type());
}

void set_gradients(torch::nn::Module& network, int step) {
  std::uint64_t i = 0;
  for (auto& parameter : network.parameters()) {
    const auto gradient = gradient_of(parameter, static_cast<std::uint64_t>(100 * step) + i++);
    if (parameter.grad().defined()) {
      parameter.mutable_grad().copy_(gradient);
    } else {
      parameter.mutable_grad() = gradient;
    }
  }
}

std::shared_ptr<testing::SmallNetwork> network_of(at::ScalarType dtype) {
  return testing::make_small_network("convolution", dtype);
}

TEST(AdamW, EqualsTorchsOverAHundredSteps) {
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const auto ours = network_of(dtype), theirs = network_of(dtype);
    FlatParameters parameters(*ours);
    AdamWOptions options;
    options.weight_decay = 0.1;
    AdamW own(parameters, options);
    torch::optim::AdamW torchs(theirs->parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.1));
    for (int step = 0; step < 100; ++step) {
      set_gradients(*ours, step);
      set_gradients(*theirs, step);
      own.step(0.01, {}, Placement::kUpdate);
      torchs.step();
    }
    const double difference =
        (testing::flattened(ours->parameters()) - testing::flattened(theirs->parameters())).abs().max().item<double>();
    EXPECT_LT(difference, dtype == at::kDouble ? 1e-12 : 2e-5);
  }
}

/// Parameters that match a pattern move as without decay, the others as with it.
template <class Optimizer, class Options>
void expect_patterns(Options options) {
  const auto step_of = [&](double decay, const std::vector<std::string>& patterns) {
    const auto network = network_of(at::kDouble);
    FlatParameters parameters(*network);
    Options chosen = options;
    chosen.weight_decay = decay;
    chosen.no_decay = patterns;
    Optimizer optimizer(parameters, chosen);
    for (int step = 0; step < 3; ++step) {
      set_gradients(*network, step);
      optimizer.step(0.1, {}, Placement::kUpdate);
    }
    std::vector<at::Tensor> values;
    for (const auto& view : parameters.views(parameters.values())) values.push_back(view.clone());
    return values;
  };
  const auto plain = step_of(0, {}), decayed = step_of(0.5, {}), mixed = step_of(0.5, {"*.bias", "conv2*"});
  const auto network = network_of(at::kDouble);
  const FlatParameters parameters(*network);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    const std::string& name = parameters.entries()[i].name;
    const bool matched = name.find("bias") != std::string::npos || name.find("conv2") == 0;
    EXPECT_TRUE(mixed[i].allclose(matched ? plain[i] : decayed[i], 1e-12, 1e-14)) << name;
    EXPECT_FALSE(plain[i].allclose(decayed[i], 1e-6, 1e-8)) << name;
  }
  EXPECT_THAT([&] { step_of(0.5, {"*norm*"}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("\"*norm*\" matches no parameter")));
}

TEST(AdamW, LeavesPatternsWithoutDecay) { expect_patterns<AdamW>(AdamWOptions()); }

TEST(Sgd, LeavesPatternsWithoutDecay) {
  SgdOptions options;
  expect_patterns<Sgd>(options);
  options.clip_norm = 0.1;
  options.nesterov = true;
  expect_patterns<Sgd>(options);
}

/// The formula in single operations, with noise by its values and by its variance.
TEST(AdamW, AddsNoiseInGradientAndUpdate) {
  for (const auto placement : {Placement::kGradient, Placement::kUpdate}) {
    for (const bool by_variance : {false, true}) {
      const auto network = network_of(at::kFloat);
      FlatParameters parameters(*network);
      set_gradients(*network, 0);
      const auto start = parameters.values().clone(), g = parameters.gradient().clone();
      const StepNoise drawn{{}, g.square(), 0.7, {3, Purpose::kNoise, 5}};
      const auto n = drawn.tensor();
      AdamWOptions options;
      options.weight_decay = 0.1;
      AdamW optimizer(parameters, options);
      optimizer.step(0.01, by_variance ? drawn : StepNoise{n, {}, 1, {}}, placement);
      const bool in_gradient = placement == Placement::kGradient;
      const auto d = in_gradient ? g + n : g;
      const auto direction = (in_gradient ? d : d + n) / (d.abs() + 1e-8);  // the first step: m^ = d, v^ = d^2
      const auto expected = start * (1 - 0.001) - 0.01 * direction;
      EXPECT_TRUE(parameters.values().allclose(expected, 1e-4, 1e-5)) << in_gradient << by_variance;
    }
  }
}

/// The first step: m^ = d, v^ = d^2, d = c (g + n) or c g.
TEST(AdamW, ClipsGradientAndNoiseTogether) {
  for (const auto placement : {Placement::kGradient, Placement::kUpdate}) {
    const auto network = network_of(at::kDouble);
    FlatParameters parameters(*network);
    set_gradients(*network, 0);
    const auto start = parameters.values().clone(), g = parameters.gradient().clone();
    const auto noise = at::full_like(start, 0.3);
    AdamWOptions options;
    options.weight_decay = 0.1;
    options.clip_norm = 0.5;
    AdamW optimizer(parameters, options);
    const auto c = optimizer.step(0.01, {noise, {}, 1, {}}, placement);
    EXPECT_NEAR(c.item<double>(), 0.5 / (g + noise).norm().item<double>(), 1e-12);
    const bool in_gradient = placement == Placement::kGradient;
    const auto d = in_gradient ? c * (g + noise) : c * g;
    const auto direction = (in_gradient ? d : d + c * noise) / (d.abs() + 1e-8);
    EXPECT_TRUE(parameters.values().allclose(start * (1 - 0.001) - 0.01 * direction, 1e-9, 1e-9)) << in_gradient;
  }
}

/// The first step: m^ = c g, v^ = (c g)^2, and the noise as it is.
TEST(AdamW, ClipsTheGradientApartFromTheNoise) {
  const auto network = network_of(at::kDouble);
  FlatParameters parameters(*network);
  set_gradients(*network, 0);
  const auto start = parameters.values().clone();
  const auto noise = at::ones_like(start);
  AdamWOptions options;
  options.clip_norm = 0.5;
  options.clip_noise = false;
  AdamW optimizer(parameters, options);
  const auto factor = optimizer.step(0.01, {noise, {}, 1, {}}, Placement::kUpdate);
  EXPECT_NEAR(factor.item<double>(), 0.5 / parameters.gradient().norm().item<double>(), 1e-12);
  const auto d = factor * parameters.gradient();
  EXPECT_TRUE(parameters.values().allclose(start - 0.01 * (d + noise) / (d.abs() + 1e-8), 1e-9, 1e-9));
}

}  // namespace
}  // namespace covnoise
