#include "covnoise/nn/loss.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

namespace covnoise {
namespace {

TEST(CrossEntropyLosses, AreThoseOfPyTorchWithAndWithoutSmoothing) {
  torch::manual_seed(4);
  const auto logits = torch::randn({6, 5}, torch::kFloat64);
  const auto labels = torch::randint(0, 5, {6}, torch::kInt64);
  for (const double smoothing : {0.0, 0.1, 0.7}) {
    const auto options =
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone).label_smoothing(smoothing);
    const auto expected = torch::nn::functional::cross_entropy(logits, labels, options);
    EXPECT_TRUE(cross_entropy_losses(logits, labels, smoothing).allclose(expected, 1e-12, 1e-12)) << smoothing;
  }
}

}  // namespace
}  // namespace covnoise
