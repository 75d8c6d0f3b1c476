#include "covnoise/ops/weight_gradient.h"

#include "support/device.h"

#include "covnoise/core/threads.h"
#include "ops/weight_gradient/weight_gradient_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/script.h>

namespace covnoise {
namespace {

using weight_gradient::Convolution;
using weight_gradient::InstructionSet;

/// Sizes of one convolution; only the image may not be square.
struct Sizes {
  std::int64_t examples, channels, outputs, height, width, kernel, stride = 1, padding = 0, dilation = 1, groups = 1;

  std::int64_t out(std::int64_t size) const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
  std::vector<std::int64_t> weight() const { return {outputs, channels / groups, kernel, kernel}; }
  at::Tensor x(at::ScalarType dtype) const {
    return at::randn({examples, channels, height, width}, at::kDouble).to(dtype);
  }
  at::Tensor dz(at::ScalarType dtype) const {
    return at::randn({examples, outputs, out(height), out(width)}, at::kDouble).to(dtype);
  }
  Convolution convolution() const {
    return {examples,    channels / groups, outputs / groups, groups,  height, width,
            out(height), out(width),        kernel,           kernel,  stride, stride,
            padding,     padding,           dilation,         dilation};
  }
  std::string name() const {
    return fmt::format("M={} C={} O={} H={} W={} k={} s={} p={} d={} g={}", examples, channels, outputs, height, width,
                       kernel, stride, padding, dilation, groups);
  }
};

/// LibTorch's own weight gradient, in float64.
at::Tensor library_gradient(const Sizes& s, const at::Tensor& x, const at::Tensor& dz) {
  const at::Tensor weight = at::zeros(s.weight(), x.options().dtype(at::kDouble));
  return std::get<1>(at::convolution_backward(dz.to(at::kDouble), x.to(at::kDouble), weight, c10::nullopt,
                                              {s.stride, s.stride}, {s.padding, s.padding}, {s.dilation, s.dilation},
                                              false, {0, 0}, s.groups, {false, true, false}));
}

std::tuple<at::Tensor, at::Tensor> brute_force(const Sizes& s, const at::Tensor& x, const at::Tensor& dz,
                                               std::int64_t group) {
  at::Tensor sums = at::zeros(s.weight(), x.options().dtype(at::kDouble)), squares = at::zeros_like(sums);
  for (std::int64_t i = 0; i < s.examples; i += group) {
    const at::Tensor gradient = library_gradient(s, x.narrow(0, i, group), dz.narrow(0, i, group));
    sums += gradient;
    squares += gradient.square();
  }
  return {sums, squares};
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected) {
  const double tolerance = actual.scalar_type() == at::kDouble ? 1e-10 : 1e-4;
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const double error = (actual.to(at::kDouble) - expected).abs().max().item<double>();
  EXPECT_LE(error, tolerance * expected.abs().max().item<double>());
}

/// (sums, squares) of the kernel.
std::tuple<at::Tensor, at::Tensor> kernel(const Sizes& s, const at::Tensor& x, const at::Tensor& dz, std::int64_t group,
                                          InstructionSet instruction_set) {
  const at::Tensor squares = at::zeros(s.weight(), x.options());
  const at::Tensor sums = weight_gradient::gradient_squares(s.convolution(), x, dz, squares, group, instruction_set);
  return {sums, squares};
}

class WeightGradient : public ::testing::TestWithParam<std::tuple<InstructionSet, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(7);
    at::set_num_threads(1);  // the problems are tiny
  }
  void TearDown() override { at::set_num_threads(available_processors()); }

  void check(const Sizes& s, std::int64_t group) {
    SCOPED_TRACE(s.name() + fmt::format(" group={}", group));
    const auto [instruction_set, dtype] = GetParam();
    const at::Tensor x = s.x(dtype), dz = s.dz(dtype);
    const auto [sums, squares] = kernel(s, x, dz, group, instruction_set);
    const auto [expected_sums, expected_squares] = brute_force(s, x, dz, group);
    expect_close(sums.view(s.weight()), expected_sums);
    expect_close(weight_gradient::gradient(s.convolution(), x, dz, instruction_set).view(s.weight()), expected_sums);
    expect_close(squares.view(s.weight()), expected_squares);
  }
};

TEST_P(WeightGradient, EveryRemainderOfChannelsAndOutputs) {
  for (const std::int64_t channels : {1, 3, 5, 16, 17})
    for (const std::int64_t outputs : {1, 7, 16, 20, 50})
      for (const std::int64_t kernel : {1, 3, 5}) check({3, channels, outputs, 7, 9, kernel, 1, kernel / 2}, 1);
}

TEST_P(WeightGradient, EveryStrideAndPadding) {
  for (const std::int64_t channels : {3, 17})
    for (const std::int64_t kernel : {1, 3, 5})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t padding : {0, 1, 2}) check({2, channels, 20, 6, 11, kernel, stride, padding}, 1);
}

TEST_P(WeightGradient, DilationAndGroups) {
  for (const std::int64_t dilation : {2, 3})
    for (const std::int64_t channels : {3, 18}) check({2, channels, 7, 9, 8, 3, 1, 2, dilation}, 1);
  for (const std::int64_t groups : {2, 3, 6}) check({2, 18, 24, 5, 6, 3, 2, 1, 1, groups}, 1);
  check({2, 6, 6, 5, 6, 3, 1, 2, 2, 6}, 1);
}

TEST_P(WeightGradient, GroupsOfExamples) {
  for (const std::int64_t group : {1, 2, 4, 8})
    for (const std::int64_t size : {1, 2, 9, 14}) check({8, 5, 20, size, size, 3, 1, 1}, group);
  check({1, 3, 7, 4, 5, 3}, 1);
  check({600, 9, 7, 2, 2, 3, 1, 1}, 300);  // a group that is packed in several chunks
}

TEST_P(WeightGradient, ImagesThatArePackedInStrips) {
  for (const std::int64_t group : {1, 3}) {
    check({3, 3, 20, 31, 33, 5, 1, 2}, group);
    check({3, 17, 7, 37, 29, 3, 1, 1}, group);
    check({3, 9, 7, 61, 53, 3, 2, 1}, group);
    check({3, 1, 4, 3, 700, 3, 1, 1}, group);
  }
}

TEST_P(WeightGradient, WeightsThatAreCutIntoParts) {
  check({3, 131, 150, 3, 2, 1}, 1);
  check({4, 260, 33, 2, 2, 3, 1, 1}, 2);
}

/// Linear layers of many inputs are computed with their operands swapped.
TEST_P(WeightGradient, LinearLayers) {
  for (const std::int64_t inputs : {3, 33, 140, 300})
    for (const std::int64_t outputs : {1, 10, 150, 260})
      for (const std::int64_t group : {1, 4, 64}) check({128, inputs, outputs, 1, 1, 1}, group);
}

TEST_P(WeightGradient, SquaresOfPositions) {
  const auto [instruction_set, dtype] = GetParam();
  for (const Sizes& s : {Sizes{3, 5, 20, 7, 6, 3, 1, 1}, Sizes{3, 17, 7, 25, 26, 3, 2, 1}, Sizes{3, 1, 7, 9, 6, 5},
                         Sizes{300, 140, 50, 1, 1, 1}, Sizes{30, 9, 50, 1, 1, 1}}) {
    const at::Tensor x = s.x(dtype), dz = s.dz(dtype);
    const auto [sums, squares] = kernel(s, x, dz, weight_gradient::kEachPosition, instruction_set);
    expect_close(sums.view(s.weight()), library_gradient(s, x, dz));
    expect_close(squares.view(s.weight()),
                 library_gradient(s, x.to(at::kDouble).square(), dz.to(at::kDouble).square()));
  }
}

TEST_P(WeightGradient, IsTheSameOnAnyNumberOfThreads) {
  const auto [instruction_set, dtype] = GetParam();
  for (const Sizes& s :
       {Sizes{64, 3, 20, 9, 9, 3, 1, 1}, Sizes{16, 150, 140, 4, 4, 3, 1, 1}, Sizes{260, 600, 520, 1, 1, 1}}) {
    const at::Tensor x = s.x(dtype), dz = s.dz(dtype);
    at::set_num_threads(1);
    const auto one = kernel(s, x, dz, 2, instruction_set);
    at::set_num_threads(5);
    const auto two = kernel(s, x, dz, 2, instruction_set);
    EXPECT_TRUE(at::equal(std::get<0>(one), std::get<0>(two)) && at::equal(std::get<1>(one), std::get<1>(two)));
    const auto plain = weight_gradient::gradient(s.convolution(), x, dz, instruction_set);
    at::set_num_threads(1);
    EXPECT_TRUE(at::equal(plain, weight_gradient::gradient(s.convolution(), x, dz, instruction_set)));
  }
}

std::string parameter_name(const ::testing::TestParamInfo<std::tuple<InstructionSet, at::ScalarType>>& info) {
  const char* const names[] = {"Portable", "Avx2", "Avx512"};
  return std::string(names[static_cast<int>(std::get<0>(info.param))]) + toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, WeightGradient,
                         ::testing::Combine(::testing::ValuesIn(weight_gradient::available_instruction_sets()),
                                            ::testing::Values(at::kFloat, at::kDouble)),
                         parameter_name);

TEST(Conv2dWeightGradientSquares, TakesAnyStridesOfTheTensors) {
  const Sizes s{4, 6, 10, 7, 5, 3, 2, 1, 1, 2};
  const at::Tensor x = testing::on_device(s.x(at::kDouble).to(at::MemoryFormat::ChannelsLast)),
                   dz = testing::on_device(s.dz(at::kDouble));
  at::Tensor squares = at::zeros(s.weight(), x.options());
  const auto sums = conv2d_weight_gradient_squares(x, dz, squares, s.weight(), {2}, {1, 1}, {1}, 2, 2, false);
  const auto [expected_sums, expected_squares] = brute_force(s, x, dz, 2);
  expect_close(sums, expected_sums);
  expect_close(squares, expected_squares);
}

TEST(Conv2dWeightGradientSquares, HeightAndWidthAreNotMixedUp) {
  const at::Tensor x = testing::on_device(at::randn({1, 3, 9, 11}, at::kDouble)),
                   weight = at::zeros({4, 3, 3, 2}, x.options());
  const std::vector<std::int64_t> stride{2, 1}, padding{1, 0}, dilation{1, 3};
  const at::Tensor dz = testing::on_device(at::randn({1, 4, 5, 8}, at::kDouble));
  at::Tensor squares = at::ones_like(weight);  // added to
  const auto sums =
      conv2d_weight_gradient_squares(x, dz, squares, weight.sizes(), stride, padding, dilation, 1, 1, false);
  const at::Tensor expected = std::get<1>(at::convolution_backward(dz, x, weight, c10::nullopt, stride, padding,
                                                                   dilation, false, {0, 0}, 1, {false, true, false}));
  expect_close(sums, expected);
  expect_close(squares, expected.square() + 1);
}

/// On a GPU a linear layer over patches.
TEST(Conv2dWeightGradientSquares, PatchesThatDoNotOverlap) {
  for (const auto dtype : {at::kFloat, at::kDouble})
    for (const std::int64_t group : {1, 2, 4}) {
      const Sizes s{4, 3, 8, 13, 8, 4, 4};  // a row of pixels is left over
      const at::Tensor x = testing::on_device(s.x(dtype)), dz = testing::on_device(s.dz(dtype));
      at::Tensor squares = at::zeros(s.weight(), x.options());
      const auto sums = conv2d_weight_gradient_squares(x, dz, squares, s.weight(), {4}, {0}, {1}, 1, group, false);
      const auto [expected_sums, expected_squares] = brute_force(s, x, dz, group);
      expect_close(sums, expected_sums);
      expect_close(squares, expected_squares);
    }
}

TEST(Conv2dWeightGradientSquares, SpatialDropsTheCrossTermsOfPositions) {
  const Sizes s{4, 3, 8, 6, 5, 3, 1, 1};
  const at::Tensor x = testing::on_device(s.x(at::kDouble)), dz = testing::on_device(s.dz(at::kDouble));
  at::Tensor squares = at::ones(s.weight(), x.options());
  const auto sums = conv2d_weight_gradient_squares(x, dz, squares, s.weight(), {1}, {1}, {1}, 1, 4, true);
  expect_close(sums, library_gradient(s, x, dz));
  expect_close(squares, library_gradient(s, x.square(), dz.square()) + 1);
}

TEST(LinearWeightGradientSquares, SquaresPerExampleAndPerGroup) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor a = testing::on_device(at::randn({12, 137}, at::kDouble).to(dtype)),
                     dz = testing::on_device(at::randn({12, 50}, at::kDouble).to(dtype));
    const at::Tensor a64 = a.to(at::kDouble), dz64 = dz.to(at::kDouble);
    at::Tensor squares = at::zeros({50, 137}, a.options());
    expect_close(linear_weight_gradient_squares(a, dz, squares, 1), dz64.t().mm(a64));
    const at::Tensor each = dz64.square().t().mm(a64.square());
    expect_close(squares, each);
    const at::Tensor groups = at::bmm(dz64.view({3, 4, 50}).transpose(1, 2), a64.view({3, 4, 137}));
    linear_weight_gradient_squares(a, dz, squares, 4);  // added to the existing values
    expect_close(squares, each + groups.square().sum(0));
  }
}

TEST(WeightGradientOperators, AreRegisteredWithTheDispatcher) {
  for (const char* name : {"covnoise::conv2d_weight_gradient_squares", "covnoise::linear_weight_gradient_squares"}) {
    const auto schema = c10::Dispatcher::singleton().findSchema({name, ""});
    ASSERT_TRUE(schema.has_value()) << name;
    EXPECT_TRUE(schema->hasKernelForDispatchKey(c10::DispatchKey::CPU)) << name;
  }
}

/// The first line of the refusal.
template <typename Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "accepted";
}

TEST(WeightGradientOperators, RefuseWrongSizes) {
  const at::Tensor x = at::zeros({4, 3, 8, 8}), dz = at::zeros({4, 5, 8, 8});
  const auto conv = [&](const at::Tensor& input, std::vector<std::int64_t> weight, std::int64_t stride,
                        std::int64_t groups, std::int64_t group) {
    at::Tensor squares = at::zeros({5, 3, 3, 3});
    return refusal(
        [&] { conv2d_weight_gradient_squares(input, dz, squares, weight, {stride}, {1}, {1}, groups, group, false); });
  };
  EXPECT_EQ(conv(x, {5, 3, 3, 3}, 1, 1, 1), "accepted");
  EXPECT_THAT(conv(x, {5, 3, 3, 3}, 1, 1, 3), ::testing::HasSubstr("4 examples are not a whole number of groups of 3"));
  EXPECT_THAT(conv(x, {5, 3, 3, 3}, 2, 1, 1), ::testing::HasSubstr("expected [4, 5, 4, 4]"));
  EXPECT_THAT(conv(x, {5, 3, 3, 3}, 0, 1, 1), ::testing::HasSubstr("stride [0] must be at least 1"));
  EXPECT_THAT(conv(x, {5, 2, 3, 3}, 1, 1, 1), ::testing::HasSubstr("the input has 3 channels"));
  EXPECT_THAT(conv(x, {5, 3, 3, 3}, 1, 2, 1), ::testing::HasSubstr("5 outputs are not a whole number of 2 groups"));
  EXPECT_THAT(conv(x.to(at::kDouble), {5, 3, 3, 3}, 1, 1, 1),
              ::testing::HasSubstr("both must be float or both double"));
  EXPECT_THAT(conv(x.narrow(0, 0, 2), {5, 3, 3, 3}, 1, 1, 1), ::testing::HasSubstr("2 examples in the input but 4"));
}

TEST(WeightGradientOperators, RefuseAnEmptyBatch) {
  const auto conv = [] {
    at::Tensor squares = at::zeros({5, 3, 3, 3});
    conv2d_weight_gradient_squares(at::zeros({0, 3, 8, 8}), at::zeros({0, 5, 8, 8}), squares, {5, 3, 3, 3}, {1}, {1},
                                   {1}, 1, 1, false);
  };
  EXPECT_THAT(refusal(conv), ::testing::HasSubstr("the batch is empty"));
  EXPECT_THAT(refusal([] {
                at::Tensor squares = at::zeros({5, 3});
                linear_weight_gradient_squares(at::zeros({0, 3}), at::zeros({0, 5}), squares, 1);
              }),
              ::testing::HasSubstr("the batch is empty"));
}

TEST(WeightGradientOperators, RefuseSquaresOfAnotherWeight) {
  at::Tensor squares = at::zeros({5, 4});
  EXPECT_THAT(refusal([&] {
                linear_weight_gradient_squares(at::zeros({2, 3}), at::zeros({2, 5}), squares, 1);
              }),
              ::testing::HasSubstr("the weight's 15 elements"));
}

}  // namespace
}  // namespace covnoise
