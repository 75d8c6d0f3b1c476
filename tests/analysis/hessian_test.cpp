#include "covnoise/analysis/hessian.h"

#include "covnoise/analysis/lanczos.h"
#include "covnoise/core/memory.h"
#include "covnoise/core/threads.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"
#include "support/small_networks.h"

#include <gtest/gtest.h>

#include <map>

namespace covnoise {
namespace {

std::vector<HessianProduct::Slice> in_slices(const testing::Examples& examples, std::int64_t size) {
  std::vector<HessianProduct::Slice> slices;
  const auto images = examples.images.split(size), labels = examples.labels.split(size);
  for (std::size_t i = 0; i < images.size(); ++i) slices.push_back({images[i], labels[i]});
  return slices;
}

/// The Hessian of the mean loss, row by row.
at::Tensor dense_hessian(testing::SmallNetwork& network, const testing::Examples& examples) {
  const auto loss = testing::losses_of(network.forward(examples.images), examples.labels).mean();
  const auto parameters = network.parameters();
  const auto gradients = torch::autograd::grad({loss}, parameters, {}, true, true);
  std::vector<at::Tensor> flat, rows;
  for (const auto& g : gradients) flat.push_back(g.reshape({-1}));
  const auto gradient = torch::cat(flat);
  for (std::int64_t i = 0; i < gradient.numel(); ++i) {
    std::vector<at::Tensor> row;
    const auto second = torch::autograd::grad({gradient[i]}, parameters, {}, true, false, true);
    for (std::size_t j = 0; j < second.size(); ++j)
      row.push_back(second[j].defined() ? second[j].reshape({-1}) : torch::zeros_like(parameters[j]).reshape({-1}));
    rows.push_back(torch::cat(row));
  }
  return torch::stack(rows).detach();
}

class Hessian : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  Hessian() : network_(testing::make_small_network(std::get<0>(GetParam()), at::kDouble)) {
    network_->eval();
    set_threads(1);  // thousands of tiny operations
  }
  ~Hessian() override { set_threads(0); }

  /// Of this network, whose parameters and examples are the same in every test: computed once.
  const at::Tensor& dense() {
    static std::map<std::string, at::Tensor> known;
    auto& matrix = known[std::get<0>(GetParam())];
    if (!matrix.defined()) matrix = dense_hessian(*network_, examples_);
    return matrix;
  }

  HessianProduct product() {
    return HessianProduct(
        network_->parameters(), in_slices(examples_, 5),
        [this](const HessianProduct::Slice& slice) {
          return testing::losses_of(network_->forward(slice.images), slice.labels).sum();
        },
        std::get<1>(GetParam()) ? std::int64_t{1} << 30 : 0);
  }

  std::shared_ptr<testing::SmallNetwork> network_;
  testing::Examples examples_ = testing::make_examples(*network_, 12, at::kDouble);
};

/// With the address sanitizer's allocator it is not, and no graph is kept.
bool memory_is_known() {
  const std::int64_t before = allocated_bytes();
  const auto some = torch::ones({1 << 16});
  return allocated_bytes() > before;
}

/// Kept graphs, forgotten graphs, slices of unequal size: the same matrix.
TEST_P(Hessian, ProductsEqualTheDenseMatrix) {
  auto hessian = product();
  for (int i = 0; i < 3; ++i) {
    const auto v = testing::on_device(torch::randn({hessian.dimension()}, torch::kFloat64));
    EXPECT_TRUE(hessian(v).allclose(dense().mv(v), 1e-9, 1e-12));
  }
  EXPECT_EQ(hessian.kept(), std::get<1>(GetParam()) && memory_is_known() ? 3 : 0);
}

TEST_P(Hessian, LargestEigenvaluesEqualTheDenseMatrix) {
  auto hessian = product();
  const auto expected = at::linalg_eigvalsh(dense()).flip(0);
  LanczosOptions options;
  options.count = 3;
  options.tolerance = 1e-8;
  const auto result = largest_eigenvalues(
      {[&](const at::Tensor& v) { return hessian(v); }, hessian.dimension(), hessian.options()}, options);
  EXPECT_TRUE(result.converged);
  ASSERT_EQ(result.values.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(result.values[i], expected[static_cast<std::int64_t>(i)].item<double>(), 1e-6 * result.values[0]);
    EXPECT_LE(result.residuals[i], 1e-8);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Hessian,
                         ::testing::Combine(::testing::Values("mlp", "convolution", "residual"), ::testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) ? "Kept" : "Anew");
                         });

TEST(Lanczos, SaysWhenItHasNotConverged) {
  const auto diagonal = torch::linspace(0.9, 1, 500, torch::kFloat64);
  LanczosOptions options;
  options.iterations = 5;
  options.tolerance = 1e-6;
  const auto result =
      largest_eigenvalues({[&](const at::Tensor& v) { return diagonal * v; }, 500, diagonal.options()}, options);
  EXPECT_FALSE(result.converged);
  EXPECT_GT(result.residuals[0], 1e-6);
  EXPECT_EQ(result.history.size(), 5u);
}

/// With as many steps as dimensions every eigenvalue is a node, and the weights of a start add up to one.
TEST(SpectralDensity, HasTheEigenvaluesAsNodes) {
  const auto diagonal = torch::tensor({-1.0, 0.5, 2.0, 7.0}, torch::kFloat64);
  const auto spectrum =
      spectral_density({[&](const at::Tensor& v) { return diagonal * v; }, 4, diagonal.options()}, 2, 10, 1);
  ASSERT_EQ(spectrum.values.size(), 8u);
  double sum = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(spectrum.values[i], diagonal[static_cast<std::int64_t>(i % 4)].item<double>(), 1e-10);
    sum += spectrum.weights[i];
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

/// Logits c z need c times the temperature; at the minimum the slope is zero.
TEST(Temperature, IsTheMinimum) {
  auto generator = at::detail::createCPUGenerator(8);
  const auto logits = torch::randn({200, 5}, generator, torch::dtype(torch::kFloat64)) * 3;
  const auto labels = (logits + torch::randn({200, 5}, generator, torch::dtype(torch::kFloat64)) * 3).argmax(1);
  const double t = calibrated_temperature(logits, labels);
  EXPECT_NEAR(calibrated_temperature(7 * logits, labels), 7 * t, 1e-8 * t);
  const auto loss = [&](double at_t) { return testing::losses_of(logits / at_t, labels).mean().item<double>(); };
  EXPECT_LT(loss(t), loss(t * 1.001));
  EXPECT_LT(loss(t), loss(t / 1.001));
}

TEST(Temperature, StaysFiniteWhereThereIsNoMinimum) {
  const auto logits = torch::eye(4, torch::kFloat64);
  EXPECT_NEAR(calibrated_temperature(logits, torch::arange(4)), 1e-3, 1e-9);           // always right: ever colder
  EXPECT_NEAR(calibrated_temperature(logits, (torch::arange(4) + 1) % 4), 1e3, 1e-3);  // always wrong: ever hotter
}

}  // namespace
}  // namespace covnoise
