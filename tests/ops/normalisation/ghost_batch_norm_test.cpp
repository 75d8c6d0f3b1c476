#include "covnoise/ops/ghost_batch_norm.h"

#include "covnoise/core/threads.h"
#include "support/device.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "ops/normalisation/ghost_batch_norm_kernel.h"

namespace covnoise {
namespace {

constexpr double kMomentum = 0.1, kEps = 1e-5;

struct Case {
  at::ScalarType dtype;
  std::vector<std::int64_t> sizes;
  std::int64_t ghost_batch;
};

struct Problem {
  at::Tensor x, weight, bias, running_mean, running_var, dy, residual;
};

Problem make_problem(const Case& test) {
  torch::manual_seed(7);
  const auto options = at::TensorOptions().dtype(test.dtype);
  const std::int64_t channels = test.sizes[1];
  const auto offset = torch::randn({1, channels, 1, 1}, options) * 3;
  const auto draw = [&](at::IntArrayRef sizes) { return torch::randn(sizes, options); };
  Problem p{draw(test.sizes) * 2 + offset,          draw({channels}), draw({channels}), draw({channels}),
            torch::rand({channels}, options) + 0.5, draw(test.sizes), draw(test.sizes)};
  for (auto* tensor : {&p.x, &p.weight, &p.bias, &p.running_mean, &p.running_var, &p.dy, &p.residual})
    *tensor = testing::on_device(*tensor);
  return p;
}

class GhostBatchNorm : public ::testing::TestWithParam<Case> {
 protected:
  static GhostNorm norm() { return {GetParam().ghost_batch, kMomentum, kEps, false}; }
  bool close(const at::Tensor& a, const at::Tensor& b) const {
    const double tolerance = GetParam().dtype == at::kDouble ? 1e-10 : 1e-4;
    return a.sizes() == b.sizes() && at::allclose(a, b, tolerance, tolerance);
  }
};

TEST_P(GhostBatchNorm, EqualsOneGhostBatchAfterAnother) {
  auto p = make_problem(GetParam());
  const auto mean = p.running_mean.clone(), var = p.running_var.clone();
  std::vector<at::Tensor> slices;
  for (const auto& slice : p.x.split(GetParam().ghost_batch))
    slices.push_back(at::batch_norm(slice, p.weight, p.bias, mean, var, true, kMomentum, kEps, false));
  const auto [y, statistics] = ghost_batch_norm(p.x, p.weight, p.bias, p.running_mean, p.running_var, norm());
  EXPECT_TRUE(close(y, at::cat(slices)));
  EXPECT_TRUE(close(p.running_mean, mean));
  EXPECT_TRUE(close(p.running_var, var));
  EXPECT_TRUE(close(statistics[0][0], p.x.narrow(0, 0, GetParam().ghost_batch).mean({0, 2, 3})));
}

/// y with one copy of weight and bias per example, whose gradients are the contributions of that example.
struct Reference {
  at::Tensor x, residual, weights, biases, y;
};

Reference reference(const Problem& p, std::int64_t ghost_batch, bool relu, bool residual) {
  const std::int64_t m = p.x.size(0), channels = p.x.size(1), ghosts = m / ghost_batch;
  Reference r;
  r.x = p.x.clone().requires_grad_();
  r.weights = p.weight.expand({m, channels}).clone().requires_grad_();
  r.biases = p.bias.expand({m, channels}).clone().requires_grad_();
  r.residual = p.residual.clone().requires_grad_();
  const auto grouped = r.x.view({ghosts, ghost_batch, channels, -1});
  const auto centred = grouped - grouped.mean({1, 3}, true);
  const auto xhat = (centred / (centred.pow(2).mean({1, 3}, true) + kEps).sqrt()).view({m, channels, -1});
  r.y = (xhat * r.weights.unsqueeze(2) + r.biases.unsqueeze(2)).view(p.x.sizes());
  if (residual) r.y = r.y + r.residual;
  if (relu) r.y = r.y.relu();
  return r;
}

TEST_P(GhostBatchNorm, BackwardEqualsAutograd) {
  for (const bool relu : {false, true})
    for (const bool residual : {false, true})
      for (const std::int64_t group : {std::int64_t{1}, GetParam().ghost_batch}) {
        auto p = make_problem(GetParam());
        auto kind = norm();
        kind.relu = relu;
        const auto [y, statistics] = ghost_batch_norm(p.x, p.weight, p.bias, p.running_mean, p.running_var, kind,
                                                      residual ? p.residual : at::Tensor());
        GhostNormSquares squares{at::ones_like(p.weight), at::ones_like(p.weight), group};
        const auto result = ghost_batch_norm_backward(p.dy, p.x, y, p.weight, statistics, kind, residual, squares);
        const auto r = reference(p, GetParam().ghost_batch, relu, residual);
        (r.y * p.dy).sum().backward();
        const auto by_group = [&](const at::Tensor& g) { return g.view({-1, group, g.size(1)}).sum(1).pow(2).sum(0); };
        EXPECT_TRUE(close(y, r.y.detach()));
        EXPECT_TRUE(close(result.dx, r.x.grad()));
        EXPECT_TRUE(close(result.dweight, r.weights.grad().sum(0)));
        EXPECT_TRUE(close(result.dbias, r.biases.grad().sum(0)));
        EXPECT_TRUE(close(squares.weight, 1 + by_group(r.weights.grad())));  // added to the existing values
        EXPECT_TRUE(close(squares.bias, 1 + by_group(r.biases.grad())));
        EXPECT_EQ(result.dresidual.defined(), residual);
        if (residual) {
          EXPECT_TRUE(close(result.dresidual, r.residual.grad()));
        }
      }
}

TEST_P(GhostBatchNorm, DoesNotDependOnThreads) {
  std::vector<at::Tensor> results;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    auto p = make_problem(GetParam());
    const auto [y, statistics] = ghost_batch_norm(p.x, p.weight, p.bias, p.running_mean, p.running_var, norm());
    const auto result = ghost_batch_norm_backward(p.dy, p.x, {}, p.weight, statistics, norm(), false, {});
    results.push_back(at::cat({y.flatten(), result.dx.flatten(), result.dweight, p.running_var}));
  }
  set_threads(0);
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GhostBatchNorm,
                         ::testing::Values(Case{at::kDouble, {6, 3, 5, 7}, 2}, Case{at::kDouble, {8, 5, 1, 1}, 4},
                                           Case{at::kDouble, {4, 2, 40, 41}, 4}, Case{at::kFloat, {6, 3, 5, 7}, 3},
                                           Case{at::kFloat, {12, 33, 2, 2}, 4}, Case{at::kFloat, {4, 2, 40, 41}, 1},
                                           Case{at::kFloat, {6, 600, 1, 2}, 6}));

TEST(GhostBatchNormStatistics, SurviveAnOffsetFarAboveTheSpread) {
  torch::manual_seed(3);
  const auto x =
      (torch::randn({8, 2, 16, 16}) + 1e4).contiguous();  // float: about three digits of the deviations are left
  auto mean = torch::zeros({2}), var = torch::zeros({2});
  ghost_batch_norm(x, torch::ones({2}), torch::zeros({2}), mean, var, {8, 1.0, kEps, false});
  const auto exact = x.to(at::kDouble).transpose(0, 1).reshape({2, -1}).var(1);
  EXPECT_TRUE(at::allclose(var.to(at::kDouble), exact, 1e-5));
}

TEST(GhostBatchNormStatistics, TakeImagesInAnyMemoryLayout) {
  torch::manual_seed(3);
  const auto x = torch::randn({4, 3, 6, 5}, at::kDouble);
  const auto one = torch::ones({3}, at::kDouble);
  auto mean = torch::zeros({3}, at::kDouble), var = torch::ones({3}, at::kDouble);
  const auto y = std::get<0>(ghost_batch_norm(x, one, one, mean, var, {2, 0.1, kEps, false}));
  const auto last = x.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(y, std::get<0>(ghost_batch_norm(last, one, one, mean, var, {2, 0.1, kEps, false}))));
}

// Every instruction set of this processor, not only the one that the operator chooses.
TEST(GhostBatchNormKernels, AgreeWithThePortableOnes) {
  constexpr std::int64_t kExamples = 4, kChannels = 3, kPositions = 70;
  const ghost_norm::Shape shape{kExamples, kChannels, kPositions};
  torch::manual_seed(5);
  const auto x = torch::randn({kExamples, kChannels, kPositions}), one = torch::ones({kChannels});
  const auto run = [&](const ghost_norm::KernelTable& table) {
    auto y = torch::zeros_like(x), mean = torch::zeros({kChannels}), rstd = torch::zeros({kChannels});
    double means[kChannels], variances[kChannels];
    ghost_norm::ChannelSums sums[kChannels];
    const auto data = [](const at::Tensor& tensor) { return tensor.data_ptr<float>(); };
    table.for_float.forward(shape,
                            {data(x), data(one), data(one), data(y), data(mean), data(rstd), means, variances, kEps}, 0,
                            kChannels, sums);
    auto dx = torch::zeros_like(x), dweight = torch::zeros({kExamples, kChannels}), dbias = torch::zeros_like(dweight);
    table.for_float.backward(
        shape, {data(y), data(x), data(one), data(mean), data(rstd), data(dx), data(dweight), data(dbias)}, 0,
        kChannels, sums);
    return at::cat({y.flatten(), dx.flatten(), dweight.flatten(), dbias.flatten()});
  };
  const auto portable = run(ghost_norm::kPortableKernels);
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_TRUE(at::allclose(run(ghost_norm::kAvx2Kernels), portable, 1e-5, 1e-5));
  }
  if (__builtin_cpu_supports("avx512f")) {
    EXPECT_TRUE(at::allclose(run(ghost_norm::kAvx512Kernels), portable, 1e-5, 1e-5));
  }
}

TEST(GhostBatchNormArguments, RefusesABatchThatIsNotWholeGhostBatches) {
  auto mean = torch::zeros({3}), var = torch::ones({3});
  try {
    ghost_batch_norm(torch::zeros({10, 3, 2, 2}), torch::ones({3}), torch::zeros({3}), mean, var,
                     {4, 0.1, kEps, false});
    FAIL() << "accepted";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                ::testing::HasSubstr("10 examples is not a whole number of ghost batches of 4"));
  }
}

TEST(GhostBatchNormArguments, RefusesOtherTypesAndSizes) {
  auto mean = torch::zeros({3}), var = torch::ones({3});
  const auto x = torch::zeros({4, 3, 2, 2});
  EXPECT_THROW(ghost_batch_norm(x, torch::ones({3}, at::kDouble), torch::zeros({3}), mean, var, {4, 0.1, kEps, false}),
               c10::Error);
  EXPECT_THROW(ghost_batch_norm(x, torch::ones({2}), torch::zeros({3}), mean, var, {4, 0.1, kEps, false}), c10::Error);
  EXPECT_THROW(ghost_batch_norm(x[0], torch::ones({3}), torch::zeros({3}), mean, var, {4, 0.1, kEps, false}),
               c10::Error);
}

}  // namespace
}  // namespace covnoise
