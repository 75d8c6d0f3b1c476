// A network and examples of the caller's own, trained by several ranks.
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/linear.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "train/own_series.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

struct NormalisedNetwork : torch::nn::Module {
  Linear in{register_module("in", Linear(3, 8))};
  GhostBatchNorm1d norm{register_module("norm", GhostBatchNorm1d(torch::nn::BatchNormOptions(8), 16))};
  Linear out{register_module("out", Linear(8, 1))};
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(norm(in(x)))); }
};

/// Each rank has the running statistics of all.
TEST(OwnTaskRanks, EvaluateAsTheTrainingDid) {
  const testing::TemporaryFolder folder;
  const auto task = make_task<testing::Series>([] { return std::make_shared<NormalisedNetwork>(); },
                                               [](NormalisedNetwork& network, const testing::Series& batch) {
                                                 return mean_squared_error(network.forward(batch.x), batch.y);
                                               },
                                               testing::series(256, 0), testing::series(64, 1));
  for (const Outcome expected : {Outcome::kFinished, Outcome::kFinishedBefore}) {
    std::vector<double> losses(2);
    testing::as_ranks(2, [&](Communicator& communicator) {
      auto options = testing::own_options(folder / "run", {"run.device=cpu", "train.ghost_batch=16"});
      options.communicator = &communicator;
      Trainer trainer(options, task);
      EXPECT_EQ(trainer.run(), expected);
      losses[static_cast<std::size_t>(communicator.rank())] = trainer.evaluate().loss;
    });
    for (const double loss : losses) EXPECT_DOUBLE_EQ(loss, testing::recorded_test_loss(folder / "run"));
  }
}

}  // namespace
}  // namespace covnoise
