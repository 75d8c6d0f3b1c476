#include "covnoise/train/sgd.h"

#include "support/small_networks.h"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

namespace covnoise {
namespace {

at::Tensor numbers(std::int64_t step, const FlatParameters& parameters, int salt) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + salt));
  auto values = torch::randn({parameters.size()}, generator, torch::dtype(torch::kFloat64));
  parameters.clear_gaps(values);
  return testing::on_device(values);
}

class SgdTest : public ::testing::TestWithParam<SgdOptions> {
 protected:
  std::shared_ptr<testing::SmallNetwork> network() { return testing::make_small_network("mlp", at::kDouble); }
};

TEST_P(SgdTest, EqualsPyTorchsOwn) {
  const auto ours = network(), theirs = network();
  FlatParameters parameters(*ours);
  Sgd sgd(parameters, GetParam());
  torch::optim::SGD reference(theirs->parameters(), torch::optim::SGDOptions(0.3)
                                                        .momentum(GetParam().momentum)
                                                        .nesterov(GetParam().nesterov)
                                                        .weight_decay(GetParam().weight_decay));
  for (std::int64_t step = 0; step < 20; ++step) {
    parameters.gradient().copy_(numbers(step, parameters, 1));
    const auto gradients = parameters.views(parameters.gradient().clone());
    const auto list = theirs->parameters();
    for (std::size_t i = 0; i < list.size(); ++i) list[i].mutable_grad() = gradients[i].clone();
    sgd.step(0.3, {}, Placement::kUpdate);
    reference.step();
  }
  const auto expected = testing::flattened(theirs->parameters());
  EXPECT_LT((testing::flattened(ours->parameters()) - expected).abs().max().item<double>(), 1e-12);
}

/// Noise past the buffer is the same as w_t - mu w_(t-1) added to the gradient, with w = n for plain momentum and
/// w_t = (n_t + mu w_(t-1)) / (1 + mu) for Nesterov's: what data-parallel training adds before its reduction.
TEST_P(SgdTest, NoiseInTheUpdateEqualsDifferencedNoiseInTheGradient) {
  const auto a = network(), b = network();
  FlatParameters past(*a), through(*b);
  Sgd first(past, GetParam()), second(through, GetParam());
  const double mu = GetParam().momentum;
  auto last = through.zeros();
  for (std::int64_t step = 0; step < 20; ++step) {
    past.gradient().copy_(numbers(step, past, 1));
    through.gradient().copy_(past.gradient());
    const auto noise = numbers(step, past, 2);
    first.step(0.3, {noise, {}, 1, {}}, Placement::kUpdate);
    const auto w = GetParam().nesterov ? (noise + mu * last) / (1 + mu) : noise;
    second.step(0.3, {w - mu * last, {}, 1, {}}, Placement::kGradient);
    last = w;
  }
  EXPECT_LT((past.values() - through.values()).abs().max().item<double>(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Options, SgdTest,
    ::testing::Values(SgdOptions{0, false, 0, 0}, SgdOptions{0.9, false, 0.01, 0}, SgdOptions{0.9, true, 0.01, 0}),
    [](const auto& info) {
      return std::string(info.param.nesterov ? "Nesterov" : info.param.momentum > 0 ? "Momentum" : "Plain");
    });

TEST(Sgd, ClipsTheNormOfTheGradient) {
  const auto network = testing::make_small_network("mlp", at::kDouble);
  FlatParameters parameters(*network);
  const auto before = parameters.values().clone();
  Sgd sgd(parameters, {0, false, 0, 2.0});
  parameters.gradient().copy_(numbers(0, parameters, 1) * 100);
  sgd.step(1.0, {}, Placement::kUpdate);
  EXPECT_NEAR((parameters.values() - before).norm().item<double>(), 2.0, 1e-12);
}

}  // namespace
}  // namespace covnoise
