#include "covnoise/analysis/fisher.h"

#include "covnoise/datasets/glyphs.h"
#include "covnoise/nn/initialize.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

/// Against one backward per example, on the models themselves, in evaluation mode.
TEST(FisherDiagonal, EqualsOneBackwardPerExample) {
  const auto source = make_glyphs();
  const Loader loader(source.train, {false, {0.5}, {0.25}, 0, at::kDouble});
  for (const char* name : {"lenet", "resnet8"}) {
    const auto model = make_model(name, {{1, 28, 28}, 10, 0});
    model->to(torch::kFloat64);
    initialize(*model, 3);
    const auto result = fisher_diagonal(*model, loader, {5, false, 0});
    std::vector<at::Tensor> squares;
    for (const auto& p : model->parameters()) squares.push_back(torch::zeros_like(p));
    model->eval();
    for (std::int64_t i = 0; i < 5; ++i) {
      const auto index = torch::tensor({i});
      const auto loss =
          torch::nll_loss(torch::log_softmax(model->forward(loader.plain_images(index)), 1), loader.labels(index));
      const auto gradients = torch::autograd::grad({loss}, model->parameters());
      for (std::size_t j = 0; j < gradients.size(); ++j) squares[j] += gradients[j].pow(2) / 5;
    }
    for (std::size_t j = 0; j < squares.size(); ++j) {
      EXPECT_TRUE(result.diagonal[j].second.allclose(squares[j], 1e-9, 1e-16))
          << name << " " << result.diagonal[j].first;
    }
  }
}

}  // namespace
}  // namespace covnoise
