#include "nn/layer_case.h"

#include <gtest/gtest.h>

namespace covnoise::testing {
namespace {

// The contract of AccountedLayer, for every layer: statistics against one backward pass for each example.
class Accounting : public ::testing::TestWithParam<LayerCase> {
 protected:
  Accounting() : subject_(GetParam().make()) {}
  bool equal(const at::Tensor& a, const at::Tensor& b) const { return close(a, b, GetParam().tolerance()); }

  /// Squares of the rows' sums over `group` consecutive examples, summed.
  static at::Tensor squares(const at::Tensor& rows, std::int64_t group) {
    if (!rows.defined()) return rows;
    return rows.view({-1, group, rows.size(1)}).sum(1).pow(2).sum(0);
  }

  Subject subject_;
};

TEST_P(Accounting, GradientEqualsPlainGradient) {
  const auto plain = gradients(subject_, subject_.x, subject_.dz);
  record_of(subject_, {Squares::kExact, true, true, 0});
  const auto accounted = gradients(subject_, subject_.x, subject_.dz);
  EXPECT_TRUE(equal(accounted.x, plain.x));
  EXPECT_TRUE(equal(accounted.weight, plain.weight));
  EXPECT_TRUE(equal(accounted.bias, plain.bias));
}

TEST_P(Accounting, ExactSquaresEqualOneBackwardPerExample) {
  const auto [weights, biases] = gradient_rows(subject_);
  const auto record = record_of(subject_, {Squares::kExact, false, false, 0});
  gradients(subject_, subject_.x, subject_.dz);
  EXPECT_TRUE(equal(record->weight_squares.flatten(), squares(weights, 1)));
  EXPECT_TRUE(equal(record->bias_squares, squares(biases, 1)));
  EXPECT_EQ(record->weight_squares.sizes(), subject_.weight().sizes());
  EXPECT_FALSE(record->weight_draw.defined() || record->gram.defined());
}

TEST_P(Accounting, GhostSquaresEqualOneBackwardPerGhostBatch) {
  const auto [weights, biases] = gradient_rows(subject_);
  for (const std::int64_t ghost_batch : {1, 2, 3, 6}) {
    const auto record = record_of(subject_, {Squares::kGhost, false, false, ghost_batch});
    gradients(subject_, subject_.x, subject_.dz);
    EXPECT_TRUE(equal(record->weight_squares.flatten(), squares(weights, ghost_batch))) << ghost_batch;
    EXPECT_TRUE(equal(record->bias_squares, squares(biases, ghost_batch))) << ghost_batch;
    subject_.layer->set_record({});
  }
}

TEST_P(Accounting, GramMatrixEqualsProductsOfPerExampleGradients) {
  const auto [weights, biases] = gradient_rows(subject_);
  auto expected = weights.mm(weights.t());
  if (biases.defined()) expected += biases.mm(biases.t());
  const auto record = record_of(subject_, {Squares::kNone, false, true, 0});
  gradients(subject_, subject_.x, subject_.dz);
  EXPECT_TRUE(equal(record->gram, expected));
}

TEST_P(Accounting, StatisticsAddUpOverMicroBatches) {
  const LayerRequest request{Squares::kGhost, true, false, 2};
  const auto whole = record_of(subject_, request);
  gradients(subject_, subject_.x, subject_.dz);
  const auto parts = record_of(subject_, request);
  gradients(subject_, subject_.x.narrow(0, 0, 2), subject_.dz.narrow(0, 0, 2));
  parts->first = 2;
  gradients(subject_, subject_.x.narrow(0, 2, 4), subject_.dz.narrow(0, 2, 4));
  EXPECT_TRUE(equal(parts->weight_squares, whole->weight_squares));
  EXPECT_TRUE(equal(parts->bias_squares, whole->bias_squares));
  EXPECT_EQ(whole->weight_draw.defined(), subject_.layer->has_kronecker_factors());
  EXPECT_TRUE(equal(parts->weight_draw, whole->weight_draw));
  EXPECT_TRUE(equal(parts->bias_draw, whole->bias_draw));
  EXPECT_TRUE(equal(parts->output_factor, whole->output_factor));
}

TEST_P(Accounting, ASecondBackwardCollectsNothingOnceTheRequestIsCleared) {
  const auto record = record_of(subject_, {Squares::kExact, true, true, 0});
  const auto loss = (subject_.forward(subject_.x) * subject_.dz).sum();
  const auto first = torch::autograd::grad({loss}, {subject_.weight()}, {}, true)[0];
  const auto squares = record->weight_squares.clone();
  record->request = {};
  const auto second = torch::autograd::grad({loss}, {subject_.weight()})[0];
  EXPECT_TRUE(equal(second, first));
  EXPECT_TRUE(at::equal(record->weight_squares, squares));
}

TEST_P(Accounting, IsTwiceDifferentiableUnlessItCollects) {
  const auto x = subject_.x.clone().requires_grad_();
  const auto second = [&] {
    const auto loss = subject_.forward(x).pow(2).sum();
    const auto gradient = torch::autograd::grad({loss}, {subject_.weight()}, {}, true, true)[0];
    return torch::autograd::grad({gradient.sum()}, {x})[0];
  };
  EXPECT_GT(second().abs().sum().item<double>(), 0);
  record_of(subject_, {Squares::kExact, false, false, 0});
  EXPECT_THROW(second(), c10::Error);
}

TEST_P(Accounting, DoesNothingWithoutGradients) {
  const auto record = record_of(subject_, {Squares::kExact, false, false, 0});
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(subject_.forward(subject_.x).requires_grad());
  EXPECT_FALSE(record->weight_squares.defined());
}

TEST_P(Accounting, RefusesGhostBatchesThatDoNotDivideTheBatch) {
  record_of(subject_, {Squares::kGhost, false, false, 4});
  EXPECT_THROW(gradients(subject_, subject_.x, subject_.dz), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Layers, Accounting, ::testing::ValuesIn(layer_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace covnoise::testing
