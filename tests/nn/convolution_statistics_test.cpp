#include "covnoise/ops/random.h"
#include "nn/layer_case.h"

#include <gtest/gtest.h>

namespace covnoise::testing {
namespace {

struct ConvolutionCase {
  std::int64_t stride, padding, dilation, groups;
  bool bias;
  at::ScalarType dtype;
};

// Statistics of single positions, against patches cut out of the padded input one position after another.
class ConvolutionStatistics : public ::testing::TestWithParam<ConvolutionCase> {
 protected:
  ConvolutionStatistics()
      : c_(GetParam()),
        subject_(subject(Conv2d(conv_options(c_.stride, c_.padding, c_.dilation, c_.groups, c_.bias)), c_.dtype,
                         {6, 4, 7, 8})) {}

  /// Input patches [M, T, C, kernel, kernel].
  at::Tensor patches() const {
    const auto padded = at::constant_pad_nd(subject_.x, {c_.padding, c_.padding, c_.padding, c_.padding});
    std::vector<at::Tensor> all;
    for (std::int64_t row = 0; row < subject_.dz.size(2); ++row)
      for (std::int64_t column = 0; column < subject_.dz.size(3); ++column) {
        const std::int64_t top = row * c_.stride, left = column * c_.stride;
        all.push_back(padded.slice(2, top, top + 2 * c_.dilation + 1, c_.dilation)
                          .slice(3, left, left + c_.dilation + 1, c_.dilation));
      }
    return at::stack(all, 1);
  }

  at::Tensor derivatives() const { return subject_.dz.flatten(2).transpose(1, 2); }  // [M, T, O]
  bool equal(const at::Tensor& a, const at::Tensor& b) const {
    return close(a, b, c_.dtype == at::kDouble ? 1e-10 : 1e-4);
  }

  ConvolutionCase c_;
  Subject subject_;
};

TEST_P(ConvolutionStatistics, SpatialSquaresDropCrossTermsOfPositions) {
  const auto record = record_of(subject_, {Squares::kSpatial, false, false, 0});
  gradients(subject_, subject_.x, subject_.dz);
  const auto a = patches(), dz = derivatives();
  const std::int64_t outputs = 6 / c_.groups, inputs = 4 / c_.groups;
  for (std::int64_t output = 0; output < 6; ++output) {
    const auto input = a.narrow(2, output / outputs * inputs, inputs);
    const auto products = input * dz.select(2, output).view({6, -1, 1, 1, 1});
    EXPECT_TRUE(equal(record->weight_squares[output], products.pow(2).flatten(0, 1).sum(0)));
  }
  if (c_.bias) {
    EXPECT_TRUE(equal(record->bias_squares, dz.pow(2).flatten(0, 1).sum(0)));
  }
}

/// The normal numbers of a layer whose examples have these places, [M T, O]: an example begins with a new block of
/// four.
at::Tensor normals(const RandomStream& stream, std::int64_t first, const at::Tensor& dz) {
  const std::int64_t count = dz[0].numel(), blocks = (count + 3) / 4;
  auto all = at::empty({first + dz.size(0), 4 * blocks}, dz.options());
  fill_normal(all, stream);
  return all.slice(0, first).slice(1, 0, count).reshape({-1, dz.size(1)});
}

TEST_P(ConvolutionStatistics, KroneckerFactorAndDrawSumOverExamplesAndPositions) {
  if (c_.groups != 1) GTEST_SKIP() << "no factors of grouped convolutions";
  LayerRequest request{Squares::kNone, true, false, 0};
  request.normals = {3, Purpose::kInputs, 5};
  const auto record = record_of(subject_, request);
  record->first = 2;
  gradients(subject_, subject_.x, subject_.dz);
  const auto a = patches().flatten(2).flatten(0, 1);  // [M T, K]
  const auto dz = derivatives().flatten(0, 1), xi = normals(request.normals, 2, subject_.dz);
  EXPECT_TRUE(equal(record->weight_draw.flatten(1), xi.t().mm(a)));
  EXPECT_TRUE(equal(record->bias_draw, c_.bias ? xi.sum(0) : at::Tensor()));
  EXPECT_TRUE(equal(record->output_factor, dz.t().mm(dz)));
  EXPECT_EQ(record->positions, subject_.dz.size(2) * subject_.dz.size(3));
}

INSTANTIATE_TEST_SUITE_P(
    Geometries, ConvolutionStatistics,
    ::testing::Values(ConvolutionCase{1, 0, 1, 1, true, at::kDouble}, ConvolutionCase{1, 1, 1, 1, false, at::kDouble},
                      ConvolutionCase{2, 1, 1, 1, true, at::kDouble}, ConvolutionCase{1, 2, 2, 1, true, at::kDouble},
                      ConvolutionCase{2, 1, 1, 2, true, at::kDouble}, ConvolutionCase{1, 1, 1, 1, true, at::kFloat},
                      ConvolutionCase{2, 0, 1, 2, false, at::kFloat}),
    [](const auto& info) {
      const auto& c = info.param;
      return fmt::format("Stride{}Padding{}Dilation{}Groups{}{}{}", c.stride, c.padding, c.dilation, c.groups,
                         c.bias ? "Bias" : "", c.dtype == at::kDouble ? "Double" : "Float");
    });

TEST(LinearStatistics, KroneckerFactorAndDrawSumOverExamples) {
  const auto linear = subject(Linear(5, 3), at::kDouble, {6, 5});
  LayerRequest request{Squares::kNone, true, false, 0};
  request.normals = {3, Purpose::kInputs, 5};
  const auto record = record_of(linear, request);
  gradients(linear, linear.x, linear.dz);
  const auto xi = normals(request.normals, 0, linear.dz);
  EXPECT_TRUE(close(record->weight_draw, xi.t().mm(linear.x), 1e-12));
  EXPECT_TRUE(close(record->bias_draw, xi.sum(0), 1e-12));
  EXPECT_TRUE(close(record->output_factor, linear.dz.t().mm(linear.dz), 1e-12));
}

}  // namespace
}  // namespace covnoise::testing
