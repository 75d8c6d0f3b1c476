#include "covnoise/analysis/hessian.h"
#include "covnoise/analysis/lanczos.h"
#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/initialize.h"
#include "covnoise/nn/loss.h"
#include "covnoise/nn/model_zoo.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

/// A network whose normalisations have statistics and parameters of their own.
std::shared_ptr<Model> normalised(const std::string& name) {
  auto model = make_model(name, {{3, 32, 32}, 10, 0});
  model->to(torch::kFloat64);
  initialize(*model, 4);
  model->eval();
  auto generator = at::detail::createCPUGenerator(2);
  const torch::NoGradGuard no_grad;
  model->apply([&](torch::nn::Module& part) {
    auto* norm = dynamic_cast<GhostBatchNorm2dImpl*>(&part);
    if (!norm) return;
    const auto draw = [&] { return torch::rand(norm->weight.sizes(), generator, norm->weight.options()); };
    norm->weight.copy_(0.5 + draw());
    norm->bias.copy_(draw() - 0.5);
    norm->running_mean.copy_(draw() - 0.5);
    norm->running_var.copy_(0.5 + draw());
  });
  return model;
}

HessianProduct::Slice few_examples() {
  auto generator = at::detail::createCPUGenerator(6);
  return {torch::randn({4, 3, 32, 32}, generator, torch::dtype(torch::kFloat64)), torch::arange(4)};
}

double largest_folded(Model& model) {
  HessianProduct product(
      fold_batch_norm(model), {few_examples()},
      [&](const HessianProduct::Slice& s) { return cross_entropy_losses(model.forward(s.images), s.labels).sum(); },
      std::int64_t{1} << 30);
  LanczosOptions options;
  options.tolerance = 1e-4;
  options.iterations = 60;
  const auto result = largest_eigenvalues(
      {[&](const at::Tensor& v) { return product(v); }, product.dimension(), product.options()}, options);
  EXPECT_TRUE(result.converged);
  return result.values.front();
}

TEST(Folding, LeavesPredictionsUnchanged) {
  for (const char* name : {"resnet8", "vgg11", "lenet", "f1", "c1"}) {
    const auto model = normalised(name);
    const auto before = model->forward(few_examples().images);
    const auto parameters = fold_batch_norm(*model);
    EXPECT_TRUE(model->forward(few_examples().images).allclose(before, 1e-5, 1e-5)) << name;
    std::size_t gone = 0;  // the scale of each normalisation, and the bias of a layer before one
    for (const auto& module : model->modules()) gone += module->as<GhostBatchNorm2dImpl>() ? 1 : 0;
    if (std::string(name) == "f1") gone *= 2;
    EXPECT_EQ(parameters.size(), model->parameters().size() - gone) << name;
  }
}

/// Also where the normalisation stands behind a max-pool, as in C1 (bn1, bn2), and its convolution's sign cannot
/// change.
TEST(Folding, OfNegativeScalesLeavesPredictionsUnchanged) {
  for (const char* name : {"resnet8", "vgg11", "f1", "c1"}) {
    const auto model = normalised(name);
    {
      const torch::NoGradGuard no_grad;
      for (const auto& [layer_name, layer] : normalisation_layers(*model)) layer->weight.slice(0, 0, -1, 2).neg_();
    }
    const auto before = model->forward(few_examples().images);
    fold_batch_norm(*model);
    EXPECT_TRUE(model->forward(few_examples().images).allclose(before, 1e-5, 1e-5)) << name;
  }
}

/// A normalised layer's weights times 10, its running mean times 10 and variance times 100 are the same function.
TEST(Folding, MakesTheEigenvalueInvariantToScale) {
  const auto model = normalised("resnet8"), scaled = normalised("resnet8");
  {
    const torch::NoGradGuard no_grad;
    Conv2dImpl* convolution = nullptr;
    int number = 0;
    scaled->apply([&](torch::nn::Module& part) {
      if (auto* c = part.as<Conv2dImpl>()) convolution = c;
      auto* norm = dynamic_cast<GhostBatchNorm2dImpl*>(&part);
      if (!norm || number++ % 2 == 1) return;
      convolution->weight.mul_(10);
      norm->running_mean.mul_(10);
      norm->running_var.mul_(100);
    });
  }
  const double expected = largest_folded(*model);
  EXPECT_NEAR(largest_folded(*scaled), expected, 1e-3 * expected);
}

TEST(Folding, RefusesANormalisationWithoutItsConvolution) {
  struct Bare : torch::nn::Module {
    Bare() { register_module("norm", GhostBatchNorm2d(torch::nn::BatchNormOptions(4), 0)); }
  } bare;
  EXPECT_THROW(fold_batch_norm(bare), Error);
}

}  // namespace
}  // namespace covnoise
