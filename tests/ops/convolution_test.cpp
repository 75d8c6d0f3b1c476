#include "covnoise/ops/convolution.h"

#include "support/device.h"

#include "ops/weight_gradient/weight_gradient_cpu.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

/// A convolution with kernels of 3x3.
struct Conv3x3 {
  const char* name;
  std::int64_t examples, channels, outputs, size, stride = 1, groups = 1;
  at::MemoryFormat layout = at::MemoryFormat::Contiguous;

  ConvolutionGeometry geometry() const { return {{stride, stride}, {1, 1}, {1, 1}, groups}; }
};

struct ConvolutionOperands {
  at::Tensor x, weight, dz;

  ConvolutionOperands(const Conv3x3& c, at::ScalarType type) {
    const auto options = at::TensorOptions(type);
    x = testing::on_device(at::randn({c.examples, c.channels, c.size, c.size}, options).contiguous(c.layout));
    weight = testing::on_device(at::randn({c.outputs, c.channels / c.groups, 3, 3}, options));
    dz = at::randn_like(convolution(x, weight, {}, c.geometry()));
  }
};

/// (dx, dweight) of LibTorch.
std::tuple<at::Tensor, at::Tensor> library_gradients(const Conv3x3& c, const ConvolutionOperands& o) {
  const auto g = c.geometry();
  const auto result = at::convolution_backward(o.dz, o.x, o.weight, c10::nullopt, g.stride, g.padding, g.dilation,
                                               false, {0, 0}, g.groups, {true, true, false});
  return {std::get<0>(result), std::get<1>(result)};
}

const Conv3x3 kOurs[] = {
    {"a layer of ResNet44", 3, 16, 16, 9},   {"stride 2", 3, 16, 32, 8, 2},
    {"two groups", 2, 16, 32, 5, 1, 2},      {"few channels", 64, 3, 16, 6},
    {"outputs beside vectors", 2, 9, 50, 4}, {"images of one pixel", 5, 17, 20, 1},
};
const Conv3x3 kLibrary[] = {
    {"few outputs", 3, 16, 15, 9},
    {"depthwise", 3, 32, 32, 7, 1, 32},
    {"few channels and examples", 63, 3, 16, 6},
    {"channels last", 3, 16, 16, 9, 1, 1, at::MemoryFormat::ChannelsLast},
};

void expect_the_librarys(const Conv3x3& c) {
  SCOPED_TRACE(c.name);
  const ConvolutionOperands o(c, at::kDouble);
  const auto [dx, dweight] = convolution_gradients(o.dz, o.x, o.weight, c.geometry(), true, true);
  const auto [library_dx, library_dweight] = library_gradients(c, o);
  EXPECT_TRUE(at::allclose(dx, library_dx, 1e-12, 1e-11));
  EXPECT_TRUE(at::allclose(dweight, library_dweight, 1e-12, 1e-11));
  const auto alone = convolution_gradients(o.dz, o.x, o.weight, c.geometry(), false, true);
  EXPECT_FALSE(std::get<0>(alone).defined());
  EXPECT_TRUE(at::equal(std::get<1>(alone), dweight));
}

TEST(ConvolutionGradients, AreTheLibrarysInDoublePrecision) {
  at::manual_seed(3);
  for (const Conv3x3& c : kOurs) expect_the_librarys(c);
  for (const Conv3x3& c : kLibrary) expect_the_librarys(c);
}

/// In float the two sum in different orders: the bits tell which of them it was.
TEST(ConvolutionGradients, TakeTheFasterKernelByShape) {
  if (testing::device().is_cuda()) GTEST_SKIP() << "the rule of the CPU";
  if (weight_gradient::available_instruction_sets().size() == 1) GTEST_SKIP() << "no vector kernels for this processor";
  at::manual_seed(3);
  const auto gradient = [](const Conv3x3& c, const ConvolutionOperands& o) {
    return std::get<1>(convolution_gradients(o.dz, o.x, o.weight, c.geometry(), false, true));
  };
  for (const Conv3x3& c : kOurs) {
    const ConvolutionOperands o(c, at::kFloat);
    const auto g = c.geometry();
    const auto ours =
        weight_gradient::conv2d_gradient(o.x, o.dz, o.weight.sizes(), g.stride, g.padding, g.dilation, g.groups);
    EXPECT_TRUE(at::equal(gradient(c, o), ours)) << c.name;
  }
  for (const Conv3x3& c : kLibrary) {
    const ConvolutionOperands o(c, at::kFloat);
    EXPECT_TRUE(at::equal(gradient(c, o), std::get<1>(library_gradients(c, o)))) << c.name;
  }
}

}  // namespace
}  // namespace covnoise
