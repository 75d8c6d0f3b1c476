#include "support/device.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using Numbers = std::vector<std::int64_t>;

struct GradientAndMoments {
  at::Tensor gradient, moments;
};

struct OfLayer {
  GradientAndMoments weight, bias;
};

/// As Python calls it.
OfLayer call(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow((std::string("covnoise::") + name).c_str(), "").callBoxed(&stack);
  return {{stack.at(0).toTensor(), stack.at(1).toTensor()}, {stack.at(2).toTensor(), stack.at(3).toTensor()}};
}

at::Tensor normal(at::IntArrayRef sizes) { return testing::on_device(at::randn(sizes, at::kDouble)); }

/// Of the examples' contributions [M, ...] in groups of `size`, the last one smaller.
at::Tensor expected_moments(const at::Tensor& contributions, std::int64_t size) {
  auto squares = at::zeros_like(contributions[0]);
  for (const auto& group : contributions.split(size)) {
    const double weight = static_cast<double>(size) / static_cast<double>(group.size(0));
    squares += group.sum(0).square() * weight;
  }
  return at::stack({contributions.sum(0), squares});
}

void expect_moments(const GradientAndMoments& found, const at::Tensor& contributions, std::int64_t size) {
  EXPECT_TRUE(found.moments.allclose(expected_moments(contributions, size), 1e-10, 1e-12)) << "groups of " << size;
  EXPECT_TRUE(found.gradient.equal(found.moments[0]));
  EXPECT_FALSE(found.gradient.is_alias_of(found.moments));
}

class MomentsOfGroups : public ::testing::TestWithParam<std::int64_t> {};  // of 7 examples, the size of a group

TEST_P(MomentsOfGroups, OfAConvolution) {
  at::manual_seed(1);
  const auto x = normal({7, 3, 5, 4}), dz = normal({7, 2, 2, 3});
  const auto found = call("conv2d_moments", {x, dz, Numbers{2, 3, 2, 2}, Numbers{2, 1}, Numbers{0, 0}, Numbers{1, 1}, 1,
                                             GetParam(), true, true});
  std::vector<at::Tensor> each;
  for (std::int64_t i = 0; i < 7; ++i)
    each.push_back(
        std::get<1>(at::convolution_backward(dz.narrow(0, i, 1), x.narrow(0, i, 1), normal({2, 3, 2, 2}), {}, {2, 1},
                                             {0, 0}, {1, 1}, false, {0, 0}, 1, {false, true, false})));
  expect_moments(found.weight, at::stack(each), GetParam());
  expect_moments(found.bias, dz.sum({2, 3}), GetParam());
}

TEST_P(MomentsOfGroups, OfALinearLayerOverPositions) {
  at::manual_seed(2);
  const auto a = normal({7, 2, 3, 4}), dz = normal({7, 2, 3, 5});
  const auto found = call("linear_moments", {a, dz, GetParam(), true, true});
  expect_moments(found.weight, at::einsum("mstk,msto->mok", {a, dz}), GetParam());
  expect_moments(found.bias, dz.sum({1, 2}), GetParam());
  EXPECT_FALSE(found.weight.moments.is_alias_of(found.bias.moments));
}

INSTANTIATE_TEST_SUITE_P(Sizes, MomentsOfGroups, ::testing::Values(1, 3, 7, 10));

TEST(WeightMoments, OfAOneDimensionalConvolutionHaveItsSizes) {
  const auto found = call("conv2d_moments", {normal({4, 3, 1, 5}), normal({4, 2, 1, 4}), Numbers{2, 3, 2},
                                             Numbers{1, 1}, Numbers{0, 0}, Numbers{1, 1}, 1, 2, true, false});
  EXPECT_EQ(found.weight.gradient.sizes(), at::IntArrayRef({2, 3, 2}));
  EXPECT_EQ(found.weight.moments.sizes(), at::IntArrayRef({2, 2, 3, 2}));
}

TEST(WeightMoments, OfOneParameterAreThoseOfBoth) {
  at::manual_seed(4);
  const auto a = normal({5, 3}), dz = normal({5, 2});
  const auto both = call("linear_moments", {a, dz, 2, true, true});
  const auto weight = call("linear_moments", {a, dz, 2, true, false});
  const auto bias = call("linear_moments", {a, dz, 2, false, true});
  EXPECT_TRUE(weight.weight.moments.equal(both.weight.moments));
  EXPECT_TRUE(bias.bias.moments.equal(both.bias.moments));
  for (const auto& nothing : {weight.bias.gradient, weight.bias.moments, bias.weight.gradient, bias.weight.moments})
    EXPECT_EQ(nothing.sizes(), at::IntArrayRef({0}));
}

TEST(WeightMoments, OfHalvesAreInFloat) {
  at::manual_seed(5);
  const auto a = normal({4, 3}), dz = normal({4, 2});
  const auto half = call("linear_moments", {a.to(at::kHalf), dz.to(at::kHalf), 2, true, true});
  const auto wide = call("linear_moments", {a, dz, 2, true, true});
  EXPECT_EQ(half.weight.gradient.scalar_type(), at::kFloat);
  EXPECT_EQ(half.bias.moments.scalar_type(), at::kFloat);
  EXPECT_TRUE(half.weight.moments.to(at::kDouble).allclose(wide.weight.moments, 1e-2, 1e-2));
}

std::string moments_error(at::IntArrayRef a, at::IntArrayRef dz, std::int64_t group) {
  try {
    call("linear_moments", {normal(a), normal(dz), group, true, true});
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(WeightMoments, RefuseWhatDoesNotFit) {
  EXPECT_THAT(moments_error({0, 3}, {0, 2}, 2), ::testing::HasSubstr("0 examples in groups of 2"));
  EXPECT_THAT(moments_error({4, 3}, {4, 2}, 0), ::testing::HasSubstr("4 examples in groups of 0"));
  EXPECT_THAT(moments_error({4, 2, 3}, {4, 3, 2}, 2), ::testing::HasSubstr("equal except for the last size"));
}

}  // namespace
}  // namespace covnoise
