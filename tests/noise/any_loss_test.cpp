// Losses and batches of the caller's own.
#include "covnoise/core/error.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/structure.h"
#include "support/small_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

struct Regression : torch::nn::Module {
  Linear in{register_module("in", Linear(3, 4))}, out{register_module("out", Linear(4, 1))};
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

/// Its own idea of a batch: inputs, targets, weights of the examples.
struct WeightedBatch {
  at::Tensor x, y, weight;
};

class AnyLoss : public ::testing::Test {
 protected:
  static constexpr std::int64_t kCount = 4;

  AnyLoss() {
    network_.to(at::kDouble);
    initialize(network_, 3);
    network_.to(testing::device());
    parameters_ = std::make_unique<FlatParameters>(network_);
    auto generator = at::detail::createCPUGenerator(5);
    const auto options = torch::dtype(torch::kFloat64);
    batch_ = {testing::on_device(torch::randn({kCount, 3}, generator, options)),
              testing::on_device(torch::randn({kCount, 1}, generator, options)),
              testing::on_device(torch::rand({kCount}, generator, options))};
  }

  static Losses weighted(Regression& network, const WeightedBatch& batch) {
    return mean_squared_error(network.forward(batch.x), batch.y).values * batch.weight;
  }
  static Losses plain(Regression& network, const WeightedBatch& batch) {
    return mean_squared_error(network.forward(batch.x), batch.y);
  }
  template <class Function>
  GradientStatistics collect(Function function, const Needs& needs, std::uint32_t step = 0) {
    GradientPass pass(network_, loss_on<WeightedBatch>(network_, function), *parameters_, {});
    pass.begin({needs, 1, step});
    pass.add(batch_);
    return pass.finish();
  }
  /// Gradient of a scalar for each example [M, d].
  template <class Scalar>
  at::Tensor rows_of(const Scalar& scalar) {
    std::vector<at::Tensor> rows;
    for (std::int64_t i = 0; i < kCount; ++i)
      rows.push_back(testing::flattened(torch::autograd::grad({scalar(i)}, network_.parameters())));
    return torch::stack(rows);
  }
  at::Tensor row(const at::Tensor& buffer) const { return testing::flattened(parameters_->views(buffer)); }

  Regression network_;
  std::unique_ptr<FlatParameters> parameters_;
  WeightedBatch batch_;
};

TEST_F(AnyLoss, GradientAndSquaresAreThoseOfTheCallersLosses) {
  Needs needs;
  needs.squares = Squares::kExact;
  const auto statistics = collect(weighted, needs);
  const auto rows = rows_of([&](std::int64_t i) { return weighted(network_, batch_).values[i]; });
  EXPECT_LT((row(statistics.gradient) - rows.mean(0)).abs().max().item<double>(), 1e-12);
  EXPECT_LT((row(statistics.diagonal) - rows.pow(2).mean(0)).abs().max().item<double>(), 1e-12);
}

/// Targets drawn around the prediction with variance 1/2 give the draw of (1/M) sum_i 2 J_i J_i^T.
TEST_F(AnyLoss, TrueFisherOfARegressionHasItsCovariance) {
  constexpr std::uint32_t kDraws = 6000;
  Needs needs;
  needs.extra = ExtraBackward::kSampledLabels;
  std::vector<at::Tensor> draws;
  for (std::uint32_t step = 0; step < kDraws; ++step) draws.push_back(row(collect(plain, needs, step).draw));
  const auto jacobian = rows_of([&](std::int64_t i) { return network_.forward(batch_.x)[i][0]; });
  const auto stated = 2 * jacobian.t().matmul(jacobian) / kCount;
  const auto all = torch::stack(draws);
  const auto measured = all.t().matmul(all) / static_cast<double>(kDraws), variance = stated.diagonal();
  const auto error = ((torch::outer(variance, variance) + stated.pow(2)) / static_cast<double>(kDraws)).sqrt();
  EXPECT_TRUE(((measured - stated).abs() <= 6 * error + 1e-12).all().item<bool>());
}

TEST_F(AnyLoss, LabelsOfTheModelAreRefusedWhereTheLossCannotDrawThem) {
  Needs draw, squares;
  draw.extra = ExtraBackward::kSampledLabels;
  squares.squares = Squares::kExact;
  squares.labels = Labels::kModel;
  for (const auto& needs : {draw, squares}) {
    EXPECT_THAT([&] { collect(weighted, needs); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("cannot draw labels from the model")));
  }
}

TEST_F(AnyLoss, AnAveragedLossIsRefused) {
  const auto averaged = [](Regression& network, const WeightedBatch& batch) {
    return plain(network, batch).values.mean();
  };
  EXPECT_THAT([&] { collect(averaged, {}); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("one loss for each, not averaged")));
}

TEST_F(AnyLoss, TensorsOfDifferentNumbersOfExamplesAreRefused) {
  batch_.y = batch_.y.narrow(0, 0, 2);
  EXPECT_THAT([&] { collect(plain, {}); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("the first dimension of each")));
}

/// An undefined tensor of the struct stays undefined.
TEST_F(AnyLoss, MicroBatchesOfARunAreTheSameStruct) {
  batch_.weight = at::Tensor();
  GradientPass::Options options;
  options.micro_batch = 2;
  GradientPass pass(network_, loss_on<WeightedBatch>(network_, plain), *parameters_, options);
  GradientPass::Batch whole;
  whole.size = kCount;
  whole.load = [&](std::int64_t first, std::int64_t count) {
    return tensors_of(WeightedBatch{batch_.x.narrow(0, first, count), batch_.y.narrow(0, first, count), {}});
  };
  const auto sliced = row(pass.run({}, whole).statistics.gradient);
  EXPECT_LT((sliced - row(collect(plain, {}).gradient)).abs().max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace covnoise
