#include "train/loop/averaged_statistics.h"

#include "covnoise/nn/batch_norm.h"
#include "support/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

constexpr std::int64_t kRowsTogether = 4, kFeatures = 3;

/// A normalisation of two names.
struct TwoNamesNetwork : torch::nn::Module {
  GhostBatchNorm1d norm{
      register_module("norm", GhostBatchNorm1d(torch::nn::BatchNormOptions(kFeatures), kRowsTogether))};
  TwoNamesNetwork() { register_module("same", norm); }
};

/// Every ghost batch has the same moments, of which any mean with weights that add up to 1 is a mean again.
TEST(AveragedStatistics, AreAMeanForAnyNumberOfCallsAndRows) {
  for (const int calls : {1, 2}) {
    for (const int rows : {1, 3}) {
      TwoNamesNetwork network;
      network.to(testing::device(), at::kDouble);
      const auto x = torch::tensor({0.0, 1.0, 2.0, 5.0}, at::kDouble).unsqueeze(1).expand({kRowsTogether, kFeatures});
      const TensorSource source({x.repeat({8, 1})}, 0, testing::device());
      const GradientPass::Loss loss = [&](const GradientPass::Examples& examples) {
        const auto input = examples[0].repeat({rows, 1});
        for (int call = 0; call < calls; ++call) network.norm(input);
        return Losses(examples[0].sum(1));
      };
      measure_statistics(network, loss, source, torch::arange(32), 0, /*examples_at_once=*/16);
      EXPECT_TRUE(network.norm->running_mean.cpu().allclose(x.mean(0), 1e-12)) << calls << " x " << rows;
      EXPECT_TRUE(network.norm->running_var.cpu().allclose(x.var(0), 1e-12)) << calls << " x " << rows;
    }
  }
}

}  // namespace
}  // namespace covnoise
