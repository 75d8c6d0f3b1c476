// The paper's networks F1 and C1 as they are, against compositions of plain operators with one copy of the parameters
// per example: layers, their order, dropout and per-example statistics.
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/ops/random.h"
#include "support/small_networks.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

using testing::kGhost;

constexpr std::int64_t kNetworkExamples = 2 * kGhost;
constexpr std::uint64_t kDropoutSeed = 17;
constexpr std::uint32_t kDropoutStep = 3;

/// A network of the table in float64, with scales and shifts of the normalisations that differ.
struct PaperNetwork : testing::SmallNetwork {
  PaperNetwork(const std::string& name, const InputShape& shape) {
    ModelOptions options;
    options.input = shape;
    options.classes = 3;
    options.ghost_batch = kGhost;
    model = register_module("model", make_model(name, options));
    to(at::kDouble);
    initialize(*model, 11);
    const torch::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(7);
    for (auto& p : parameters()) p.add_(0.05 * torch::randn(p.sizes(), generator, torch::dtype(torch::kFloat64)));
    to(testing::device());
  }
  at::Tensor forward(const at::Tensor& x) override { return model->forward(x); }
  bool batch_statistics() const override { return true; }

  std::shared_ptr<Model> model;
};

/// [M, features] without bias, normalised, ReLU.
at::Tensor hidden_each(const at::Tensor& z, const at::Tensor& scale, const at::Tensor& shift) {
  return testing::norm_each(z.unsqueeze(2).unsqueeze(3), scale, shift, kGhost).relu().flatten(1);
}

struct F1Network final : PaperNetwork {
  F1Network() : PaperNetwork("f1", {1, 6, 6}) {}
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    auto h = x.flatten(1);
    for (std::size_t i = 0; i < 20; i += 4)
      h = hidden_each(testing::linear_each(h, p[i], p[i + 1]), p[i + 2], p[i + 3]);
    return testing::linear_each(h, p[20], p[21]);
  }
  std::vector<std::int64_t> input() const override { return {1, 6, 6}; }
};

struct C1Network final : PaperNetwork {
  C1Network() : PaperNetwork("c1", {3, 32, 32}) {}

  /// Half of the units, doubled: a function of seed, step, layer, example and unit.
  static at::Tensor mask(std::uint32_t layer, std::int64_t units) {
    auto uniforms = torch::empty({kNetworkExamples, units});
    fill_uniform(uniforms, {kDropoutSeed, nth(Purpose::kDropout, layer), kDropoutStep});
    return testing::on_device(uniforms.gt(0.5).to(at::kDouble) * 2);
  }
  static at::Tensor stage(const at::Tensor& x, const at::Tensor& w, const at::Tensor& scale, const at::Tensor& shift) {
    return testing::norm_each(at::max_pool2d(testing::conv_each(x, w, 1, 2), 3, 2), scale, shift, kGhost).relu();
  }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    const auto features = stage(stage(x, p[0], p[1], p[2]), p[3], p[4], p[5]).flatten(1);
    const auto without_bias = [](const at::Tensor& h, const at::Tensor& w) { return w.bmm(h.unsqueeze(2)).squeeze(2); };
    const auto first = hidden_each(without_bias(features, p[6]), p[7], p[8]) * mask(0, 384);
    const auto second = hidden_each(without_bias(first, p[9]), p[10], p[11]) * mask(1, 192);
    return testing::linear_each(second, p[12], p[13]);
  }
  std::vector<std::int64_t> input() const override { return {3, 32, 32}; }
};

void expect_statistics_of_copies(PaperNetwork& network) {
  FlatParameters parameters(network);
  GradientPass::Options options;
  options.group = kGhost;
  GradientPass pass(
      network, [&](const at::Tensor& x) { return network.forward(x); }, parameters, options);
  const auto examples = testing::make_examples(network, kNetworkExamples, at::kDouble);
  const auto contributions = testing::contributions(network, examples);
  const auto groups = contributions.reshape({kNetworkExamples / kGhost, kGhost, -1}).mean(1);
  const auto row = [&](const at::Tensor& buffer) { return testing::flattened(parameters.views(buffer)); };
  for (const auto squares : {Squares::kExact, Squares::kGhost}) {
    Needs needs;
    needs.squares = squares;
    pass.begin({needs, kDropoutSeed, kDropoutStep});
    pass.add(examples.images, examples.labels);
    const auto statistics = pass.finish();
    const auto expected = squares == Squares::kExact ? contributions.square().mean(0) : groups.var(0) * kGhost;
    EXPECT_TRUE(row(statistics.gradient).allclose(contributions.mean(0), 1e-9, 1e-13));
    EXPECT_TRUE(row(statistics.diagonal).allclose(expected, 1e-8, 1e-15));
  }
}

TEST(PaperNetworks, F1HasTheStatisticsOfOneCopyOfItsParametersPerExample) {
  F1Network network;
  expect_statistics_of_copies(network);
}

TEST(PaperNetworks, C1HasTheStatisticsOfOneCopyOfItsParametersPerExample) {
  C1Network network;
  expect_statistics_of_copies(network);
}

}  // namespace
}  // namespace covnoise
