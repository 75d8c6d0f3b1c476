#include "ops/portable/portable.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/ghost_batch_norm.h"
#include "covnoise/ops/internal/gpu_info.h"
#include "covnoise/ops/load_images.h"
#include "covnoise/ops/weight_gradient.h"
#include "support/device.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

// The operators in terms of PyTorch's own against the kernels of the CPU, which have tests of their own.
namespace covnoise {
namespace {

void expect_equal(const at::Tensor& actual, const at::Tensor& expected, double tolerance = 1e-11) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(actual.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance))
      << (actual - expected).abs().max();
}

at::Tensor normals(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

struct Layer {
  std::int64_t channels, outputs, height, width, kernel;
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups;
};

const std::vector<Layer> kLayers = {{3, 4, 6, 5, 3, {1, 1}, {1, 1}, {1, 1}, 1},
                                    {4, 6, 7, 7, 3, {2, 1}, {1, 0}, {1, 2}, 2},
                                    {5, 2, 4, 4, 1, {1, 1}, {0, 0}, {1, 1}, 1},
                                    {8, 16, 5, 6, 3, {2, 2}, {1, 1}, {1, 1}, 1}};

TEST(PortableMomentTotals, AreThoseOfTheKernel) {
  at::manual_seed(3);
  const std::vector<at::Tensor> moments = {normals({2, 300, 70}).square(), normals({2}).square(),
                                           normals({2, 3, 0}).square()};
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("covnoise::moment_totals", "")
                      .typed<at::Tensor(at::TensorList, at::ArrayRef<double>)>();
  const std::vector<double> weights = {1.0, -0.5, 0.0, 2.0};
  const auto expected = op.call(moments, weights);
  expect_equal(portable::moment_totals(moments, weights), expected);
  EXPECT_NEAR(expected[1].item<double>(), 2 * (moments[0][0].square().sum() + moments[1][0].square()).item<double>(),
              1e-8);
}

class PortableWeightGradient : public ::testing::TestWithParam<std::tuple<std::size_t, std::int64_t, bool>> {};

TEST_P(PortableWeightGradient, IsThatOfTheKernel) {
  const auto [index, group, spatial] = GetParam();
  const Layer& l = kLayers[index];
  at::manual_seed(3);
  const auto out = [&](std::int64_t size, std::size_t i) {
    return (size + 2 * l.padding[i] - l.dilation[i] * (l.kernel - 1) - 1) / l.stride[i] + 1;
  };
  const std::vector<std::int64_t> weight = {l.outputs, l.channels / l.groups, l.kernel, l.kernel};
  const auto x = normals({96, l.channels, l.height, l.width});
  const auto dz = normals({96, l.outputs, out(l.height, 0), out(l.width, 1)});
  auto expected = at::ones(weight, at::kDouble), actual = at::ones(weight, at::kDouble);
  const auto gradient = conv2d_weight_gradient_squares(x, dz, expected, weight, l.stride, l.padding, l.dilation,
                                                       l.groups, group, spatial);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    actual.fill_(1);
    expect_equal(portable::weight_gradient_squares(x.contiguous(format), dz.contiguous(format), actual, weight,
                                                   {l.stride, l.padding, l.dilation, l.groups}, group, spatial),
                 gradient);
    expect_equal(actual, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, PortableWeightGradient,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3), ::testing::Values(1, 6, 32, 96),
                                            ::testing::Bool()));

TEST(Portable, LinearLayersAndBiasesAreThoseOfTheKernels) {
  at::manual_seed(4);
  const auto a = normals({12, 5}), dz = normals({12, 3}), image = normals({12, 3, 2, 2});
  auto expected = at::zeros({3, 5}, at::kDouble), actual = at::zeros({3, 5}, at::kDouble);
  expect_equal(portable::linear_group_squares(a, dz, actual, 4), linear_weight_gradient_squares(a, dz, expected, 4));
  expect_equal(actual, expected);
  for (const auto& of : {dz, image})
    for (const bool spatial : {false, true}) {
      auto sums = at::zeros({3}, at::kDouble), wanted = at::zeros({3}, at::kDouble);
      expect_equal(portable::bias_gradient_squares(of, sums, 4, spatial),
                   bias_gradient_squares(of, wanted, 4, spatial));
      expect_equal(sums, wanted);
    }
}

struct NormCase {
  bool relu, residual;
  std::int64_t group, ghost_batch = 4;
};

class PortableGhostNorm : public ::testing::TestWithParam<NormCase> {};

TEST_P(PortableGhostNorm, IsThatOfTheKernel) {
  const auto [relu, with_residual, group, ghost_batch] = GetParam();
  at::manual_seed(5);
  const auto x = normals({12, 3, 4, 2}).mul_(2).add_(5), dy = normals({12, 3, 4, 2});
  const auto weight = normals({3}), bias = normals({3}),
             residual = with_residual ? normals({12, 3, 4, 2}) : at::Tensor();
  auto mean = normals({3}), var = at::rand({3}, at::kDouble), own_mean = mean.clone(), own_var = var.clone();
  const GhostNorm norm{ghost_batch, 0.1, 1e-5, relu};
  const auto [y, statistics] = ghost_batch_norm(x, weight, bias, mean, var, norm, residual);
  const auto [own_y, own_statistics] =
      portable::ghost_norm({x, residual, weight, bias, own_mean, own_var, ghost_batch, 0.1, 1e-5, relu});
  expect_equal(own_y, y);
  expect_equal(own_statistics, statistics);
  expect_equal(own_mean, mean);
  expect_equal(own_var, var);
  GhostNormSquares squares{at::zeros({3}, at::kDouble), at::zeros({3}, at::kDouble), group};
  const auto expected = ghost_batch_norm_backward(dy, x, y, weight, statistics, norm, with_residual, squares);
  const auto of_weight = at::zeros({3}, at::kDouble), of_bias = at::zeros({3}, at::kDouble);
  const auto [dx, dresidual, dweight, dbias] = portable::ghost_norm_backward(
      {dy, x, y, weight, statistics, ghost_batch, relu, with_residual, of_weight, of_bias, group});
  expect_equal(dx, expected.dx);
  if (with_residual) expect_equal(dresidual, expected.dresidual);
  expect_equal(dweight, expected.dweight);
  expect_equal(dbias, expected.dbias);
  expect_equal(of_weight, squares.weight);
  expect_equal(of_bias, squares.bias);
}

INSTANTIATE_TEST_SUITE_P(Cases, PortableGhostNorm,
                         ::testing::Values(NormCase{false, false, 1}, NormCase{true, false, 4}, NormCase{true, true, 1},
                                           NormCase{false, true, 12}, NormCase{true, true, 1, 12}));

/// Statistics in float32 of activations in bfloat16 whose mean is far from 0.
TEST(Portable, GhostNormOfLowPrecisionKeepsPreciseStatistics) {
  if (!testing::device().is_cuda()) GTEST_SKIP() << "bfloat16 is for GPUs";
  at::manual_seed(6);
  const auto x = testing::on_device(normals({8, 2, 16, 16}).add_(30).to(at::kBFloat16));
  const auto ones = testing::on_device(at::ones({2})), zeros = at::zeros_like(ones);
  const auto statistics =
      std::get<1>(portable::ghost_norm({x, {}, ones, zeros, zeros.clone(), ones.clone(), 4, 0.1, 0.0, false}));
  const auto groups = x.to(at::kDouble).view({2, 4, 2, 256}).permute({0, 2, 1, 3}).reshape({2, 2, -1});
  expect_equal(statistics[0], groups.mean(2), 1e-5);
  expect_equal(statistics[1], groups.var(2, /*unbiased=*/false).rsqrt(), 1e-4);
}

/// Of the same rounded activations; what is summed is not rounded, dx is. Few channels and many take different ways.
TEST(Portable, GhostNormOfLowPrecisionHasPreciseGradients) {
  if (!testing::device().is_cuda()) GTEST_SKIP() << "bfloat16 is for GPUs";
  for (const std::int64_t channels : {6, 70}) {
    at::manual_seed(7);
    const auto low = [&](double shift) {
      return testing::on_device(normals({8, channels, 6, 6}).add_(shift).to(at::kBFloat16));
    };
    const auto x = low(1), dy = low(0);
    const auto weight = testing::on_device(at::rand({channels}) + 0.5), bias = at::zeros_like(weight);
    const auto squares = [&](at::ScalarType type) {
      return std::array<at::Tensor, 2>{at::zeros_like(weight, type), at::zeros_like(weight, type)};
    };
    const auto run = [&](at::ScalarType of_activations, at::ScalarType type) {
      const auto w = weight.to(type), b = bias.to(type);
      const auto [y, statistics] = portable::ghost_norm(
          {x.to(of_activations), {}, w, b, at::zeros_like(w), at::ones_like(w), 4, 0.1, 1e-5, false});
      const auto [of_weight, of_bias] = squares(type);
      const auto [dx, dresidual, dweight, dbias] = portable::ghost_norm_backward(
          {dy.to(of_activations), x.to(of_activations), y, w, statistics, 4, false, false, of_weight, of_bias, 4});
      return std::vector<at::Tensor>{dweight, dbias, of_weight, of_bias, dx};
    };
    const auto actual = run(at::kBFloat16, at::kFloat), expected = run(at::kDouble, at::kDouble);
    const double rounding = channels > 64 ? 3e-3 : 1e-5;
    for (const std::size_t i : {0, 1, 2, 3})
      expect_equal(actual[i], expected[i], rounding * expected[i].abs().max().item<double>());
    expect_equal(actual[4], expected[4], 0.02);
  }
}

TEST(Portable, ImagesAreThoseOfTheKernel) {
  const auto images = at::randint(0, 256, {9, 3, 8, 6}, at::kByte);
  const auto indices = at::tensor({8, 0, 3, 3, 5}, at::kLong);
  const std::vector<double> mean = {0.5, 0.4, 0.3}, std = {0.2, 0.3, 0.4};
  for (const bool augment : {false, true})
    expect_equal(portable::load_images(images, indices, mean, std, augment, 7, 2, at::kDouble),
                 load_images(images, indices, {augment, mean, std, 7, at::kDouble}, 2));
}

TEST(GpuKernels, ThoseThatTheGpuCanRun) {
  EXPECT_EQ(kernels_for(90, "80,90", nullptr), GpuKernels::kAll);
  EXPECT_EQ(kernels_for(89, "80,90", "native"), GpuKernels::kGeneral);  // an 8.9 runs what was built for 8.0
  EXPECT_EQ(kernels_for(80, "86,90", nullptr), GpuKernels::kNone);
  EXPECT_EQ(kernels_for(75, "80,90", nullptr), GpuKernels::kNone);
  EXPECT_EQ(kernels_for(90, "80,90", "portable"), GpuKernels::kNone);
  EXPECT_THROW(kernels_for(90, "90", "fast"), Error);
}

TEST(GpuKernels, APartOfAGpuIsRefused) {
  for (const char* whole : {static_cast<const char*>(nullptr), "", "100"}) EXPECT_NO_THROW(require_whole_gpu(whole));
  for (const char* part : {"30", "99.5", "0", "half"}) EXPECT_THROW(require_whole_gpu(part), Error) << part;
}

}  // namespace
}  // namespace covnoise
