// Layers that are called several times in a pass, sequences, and shared parameters: the contributions of an example are
// added before they are squared. Against one copy of the parameters per example.
#include "covnoise/core/error.h"
#include "covnoise/noise/gradient_pass.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using testing::SmallNetwork;
constexpr std::int64_t kPassed = 12, kPositions = 5;

at::Tensor layer_each(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {  // x [M, T, in]
  return x.bmm(w.transpose(1, 2)) + b.unsqueeze(1);
}

/// One cell, three times.
struct Recurrent : SmallNetwork {
  Linear in{register_module("in", Linear(3, 4))}, cell{register_module("cell", Linear(4, 4))};
  Linear out{register_module("out", Linear(4, 3))};
  at::Tensor forward(const at::Tensor& x) override {
    auto h = torch::tanh(in(x));
    for (int i = 0; i < 3; ++i) h = torch::tanh(cell(h));
    return out(h);
  }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    auto h = torch::tanh(testing::linear_each(x, p[0], p[1]));
    for (int i = 0; i < 3; ++i) h = torch::tanh(testing::linear_each(h, p[2], p[3]));
    return testing::linear_each(h, p[4], p[5]);
  }
  std::vector<std::int64_t> input() const override { return {3}; }
};

/// Positions in their own dimension, folded into the first, and both in one layer.
struct Sequence final : SmallNetwork {
  Linear in{register_module("in", Linear(3, 4))}, mix{register_module("mix", Linear(4, 4))};
  Linear out{register_module("out", Linear(4, 3))};
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = torch::tanh(in(x));
    const auto folded = torch::tanh(mix(h.reshape({-1, 4}))).view(h.sizes());
    return out(torch::tanh(mix(folded)).mean(1));
  }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    auto h = torch::tanh(layer_each(x, p[0], p[1]));
    for (int i = 0; i < 2; ++i) h = torch::tanh(layer_each(h, p[2], p[3]));
    return testing::linear_each(h.mean(1), p[4], p[5]);
  }
  std::vector<std::int64_t> input() const override { return {kPositions, 3}; }
};

/// Two frames of an example folded into the first dimension; convolution and normalisation twice.
struct Frames final : SmallNetwork {
  Conv2d conv{register_module("conv", Conv2d(torch::nn::Conv2dOptions(2, 2, 3).padding(1)))};
  GhostBatchNorm2d bn{register_module("bn", GhostBatchNorm2d(torch::nn::BatchNormOptions(2), testing::kGhost))};
  Linear fc{register_module("fc", Linear(4, 3))};
  at::Tensor forward(const at::Tensor& x) override {
    auto h = bn->forward_relu(conv(x.flatten(0, 1)));
    h = torch::tanh(bn(conv(h)));
    return fc(h.mean({2, 3}).view({x.size(0), 4}));
  }
  at::Tensor reference(const std::vector<at::Tensor>& p, const at::Tensor& x) const override {
    const auto rows = [](const at::Tensor& copies) { return copies.repeat_interleave(2, 0); };
    const auto block = [&](const at::Tensor& h) {
      const auto z = testing::conv_each(h, rows(p[0]), 1, 1) + testing::channel(rows(p[1]));
      return testing::norm_each(z, rows(p[2]), rows(p[3]), testing::kGhost);
    };
    const auto h = torch::tanh(block(torch::relu(block(x.flatten(0, 1)))));
    return testing::linear_each(h.mean({2, 3}).view({x.size(0), 4}), p[4], p[5]);
  }
  std::vector<std::int64_t> input() const override { return {2, 2, 4, 4}; }
  bool batch_statistics() const override { return true; }
};

struct TiedImpl : LinearImpl {
  explicit TiedImpl(const LinearImpl& other, bool with_bias = true) : LinearImpl(4, 4) {
    parameters_["weight"] = weight = other.weight;
    if (with_bias) parameters_["bias"] = bias = other.bias;
  }
};

/// The cell of Recurrent as three modules: one of them registered twice, and one with the same parameters.
struct Tied final : Recurrent {
  std::shared_ptr<LinearImpl> again{register_module("again", cell.ptr())};
  std::shared_ptr<TiedImpl> other{register_module("other", std::make_shared<TiedImpl>(*cell))};
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = torch::tanh(again->forward(torch::tanh(cell(torch::tanh(in(x))))));
    return out(torch::tanh(other->forward(h)));
  }
};

std::shared_ptr<SmallNetwork> make_network(const std::string& name) {
  std::shared_ptr<SmallNetwork> network;
  if (name == "Recurrent") network = std::make_shared<Recurrent>();
  if (name == "Sequence") network = std::make_shared<Sequence>();
  if (name == "Frames") network = std::make_shared<Frames>();
  if (name == "Tied") network = std::make_shared<Tied>();
  network->to(at::kDouble);
  initialize(*network, 11);
  network->to(testing::device());
  return network;
}

/// As testing::contributions, with one copy of a shared parameter.
at::Tensor contributions_of_trainable(SmallNetwork& network, const testing::Examples& examples) {
  std::vector<at::Tensor> copies, rows;
  for (const auto& [name, p] : trainable_parameters(network)) {
    auto sizes = p.sizes().vec();
    sizes.insert(sizes.begin(), kPassed);
    copies.push_back(p.detach().unsqueeze(0).expand(sizes).clone().requires_grad_());
  }
  const auto losses = testing::losses_of(network.reference(copies, examples.images), examples.labels);
  for (const auto& g : torch::autograd::grad({losses.sum()}, copies)) rows.push_back(g.reshape({kPassed, -1}));
  return torch::cat(rows, 1).cpu();
}

class SeveralCalls : public ::testing::TestWithParam<std::string> {
 protected:
  SeveralCalls()
      : network_(make_network(GetParam())),
        parameters_(*network_),
        pass_(*network_, [this](const at::Tensor& x) { return network_->forward(x); }, parameters_,
              {testing::kGhost, {}}),
        examples_(testing::make_examples(*network_, kPassed, at::kDouble)),
        contributions_(contributions_of_trainable(*network_, examples_)) {}

  GradientStatistics collect(Squares squares, std::int64_t micro_batch) {
    Needs needs;
    needs.squares = squares;
    pass_.begin({needs});
    for (std::int64_t first = 0; first < kPassed; first += micro_batch)
      pass_.add(examples_.images.narrow(0, first, micro_batch), examples_.labels.narrow(0, first, micro_batch));
    return pass_.finish();
  }
  void expect_equal(const at::Tensor& buffer, const at::Tensor& expected) const {
    const auto actual = testing::flattened(parameters_.views(buffer));
    EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-10 * expected.abs().max().item<double>());
  }

  std::shared_ptr<SmallNetwork> network_;
  FlatParameters parameters_;
  GradientPass pass_;
  testing::Examples examples_;
  at::Tensor contributions_;  // [M, d]
};

TEST_P(SeveralCalls, ExactSquaresAreThoseOfTheSummedContributions) {
  for (const std::int64_t micro_batch : {12, 4}) {
    const auto statistics = collect(Squares::kExact, micro_batch);
    expect_equal(statistics.gradient, contributions_.mean(0));
    expect_equal(statistics.diagonal, contributions_.pow(2).mean(0));
  }
}

TEST_P(SeveralCalls, GhostSquaresAreThoseOfTheSummedContributions) {
  if (testing::device().is_cuda() && GetParam() == "Frames") GTEST_SKIP() << "groups of frames are for the CPU";
  for (const std::int64_t micro_batch : {12, 4}) {
    const auto statistics = collect(Squares::kGhost, micro_batch);
    const auto means = contributions_.view({-1, testing::kGhost, contributions_.size(1)}).mean(1);
    expect_equal(statistics.gradient, contributions_.mean(0));
    expect_equal(statistics.diagonal, means.var(0) * testing::kGhost);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, SeveralCalls, ::testing::Values("Recurrent", "Sequence", "Frames", "Tied"));

struct Refused {
  explicit Refused(std::shared_ptr<SmallNetwork> module, std::int64_t count = 4)
      : network(std::move(module)),
        parameters(*network),
        pass(*network, [this](const at::Tensor& x) { return network->forward(x); }, parameters, {}),
        examples(testing::make_examples(*network, count, at::kFloat)) {}

  void collect(bool kronecker = false) {
    Needs needs;
    needs.squares = Squares::kExact;
    needs.kronecker = kronecker;
    pass.begin({needs});
    pass.add(examples.images, examples.labels);
  }

  std::shared_ptr<SmallNetwork> network;
  FlatParameters parameters;
  GradientPass pass;
  testing::Examples examples;
};

template <class Network>
std::shared_ptr<SmallNetwork> on_test_device() {
  auto network = std::make_shared<Network>();
  network->to(testing::device());
  return network;
}

/// Expects a message that names what is refused.
template <class Action>
void expect_refusal(const Action& action, const std::string& name, const std::string& reason) {
  using ::testing::HasSubstr;
  EXPECT_THAT(action, ::testing::ThrowsMessage<c10::Error>(::testing::AllOf(HasSubstr(name), HasSubstr(reason))));
}

TEST(SeveralCallsRefuse, KroneckerFactorsByName) {
  Refused refused(on_test_device<Recurrent>());
  expect_refusal([&] { refused.collect(true); }, "'cell' is called 3 times", "no Kronecker factors");
}

struct OddRows final : Recurrent {
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = in(x);
    return out(h + cell(h.narrow(0, 0, 3)).mean(0));
  }
};

TEST(SeveralCallsRefuse, RowsThatAreNotAWholeNumberOfExamples) {
  Refused refused(on_test_device<OddRows>());
  expect_refusal([&] { refused.collect(); }, "'cell' gets 3 rows for 4 examples", "same number of rows");
}

struct TimeFirst final : Recurrent {
  at::Tensor forward(const at::Tensor& x) override { return out(cell(torch::stack({in(x), in(x)})).mean(0)); }
};

TEST(SeveralCallsRefuse, InputsWhoseFirstDimensionIsNotTheExamples) {
  Refused refused(on_test_device<TimeFirst>());
  expect_refusal([&] { refused.collect(); }, "'cell' gets an input [2, 4, 4] for 4 examples", "first dimension");
}

struct UsesAWeightItself final : Recurrent {
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = cell(in(x));
    return out(h + torch::matmul(h, cell->weight));
  }
};

TEST(SeveralCallsRefuse, AParameterThatIsUsedOutsideItsLayer) {
  Refused refused(on_test_device<UsesAWeightItself>());
  expect_refusal([&] { refused.collect(); }, "'cell.weight' is used 2 times", "its layer is called 1 times");
}

struct SharesOnlyTheWeight final : Recurrent {
  std::shared_ptr<TiedImpl> other{register_module("other", std::make_shared<TiedImpl>(*cell, /*with_bias=*/false))};
};

TEST(SeveralCallsRefuse, LayersThatShareOnlyTheirWeight) {
  Refused refused(on_test_device<SharesOnlyTheWeight>());
  EXPECT_THAT([&] { refused.collect(); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("'cell.weight'")));
}

struct Pyramid final : SmallNetwork {
  Conv2d conv{register_module("conv", Conv2d(torch::nn::Conv2dOptions(2, 3, 3).padding(1)))};
  at::Tensor forward(const at::Tensor& x) override {
    return conv(x).mean({2, 3}) + conv(torch::avg_pool2d(x, 2)).mean({2, 3});
  }
  at::Tensor reference(const std::vector<at::Tensor>&, const at::Tensor&) const override { return {}; }
  std::vector<std::int64_t> input() const override { return {2, 4, 4}; }
};

TEST(SeveralCallsRefuse, InputsOfDifferentShapes) {
  Refused refused(on_test_device<Pyramid>());
  expect_refusal([&] { refused.collect(); }, "'conv'", "inputs of different shapes");
}

struct UnusedCall final : Recurrent {
  at::Tensor forward(const at::Tensor& x) override {
    const auto h = torch::tanh(in(x));
    cell(h);  // does not lead to the loss
    return out(cell(h));
  }
};

/// A call that no loss depends on has no backward, and is not waited for.
TEST(SeveralCallsRefuse, ButNotACallThatLeadsNowhere) {
  Refused fine(on_test_device<UnusedCall>());
  fine.collect();
  const auto statistics = fine.pass.finish();
  const auto squares = fine.parameters.view(statistics.diagonal, fine.parameters.entries()[2]);
  EXPECT_GT(squares.abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace covnoise
