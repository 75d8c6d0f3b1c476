// A network and examples of the caller's own, trained by several ranks.
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "train/own_series.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

/// Each rank has the running statistics of all.
TEST(OwnTaskRanks, EvaluateAsTheTrainingDid) {
  const testing::TemporaryFolder folder;
  const auto task = testing::normalised_task(16);
  for (const Outcome expected : {Outcome::kFinished, Outcome::kFinishedBefore}) {
    std::vector<double> losses(2);
    testing::as_ranks(2, [&](Communicator& communicator) {
      auto options = testing::own_options(folder / "run", {"run.device=cpu"});
      options.communicator = &communicator;
      Trainer trainer(options, task);
      EXPECT_EQ(trainer.run(), expected);
      losses[static_cast<std::size_t>(communicator.rank())] = trainer.evaluate().loss;
    });
    for (const double loss : losses) EXPECT_DOUBLE_EQ(loss, testing::recorded_test_loss(folder / "run"));
  }
}

using Tensors = std::vector<NamedTensor>;

/// What a task's training leaves.
Tensors trained(const Task& task, const std::filesystem::path& out, Communicator* communicator,
                const std::string& setting = "train.micro_batch=0") {
  auto options = testing::own_options(
      out, {"run.device=cpu", "train.precision=fp64", "noise.structure=none", "train.ghost_batch=16", setting});
  options.communicator = communicator;
  Trainer trainer(options, task);
  EXPECT_EQ(trainer.run(), Outcome::kFinished);
  return model_tensors(trainer.module());
}

Tensors trained_by(int ranks, const Task& task, const std::filesystem::path& out) {
  Tensors result;
  testing::as_ranks(ranks, [&](Communicator& communicator) {
    auto own = trained(task, out, &communicator);
    if (communicator.rank() == 0) result = std::move(own);
  });
  return result;
}

void expect_equal(const Tensors& a, const Tensors& b, const std::string& what) {
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].second.allclose(b[i].second, 1e-9, 1e-10)) << what << ": " << a[i].first;
}

/// Each rank has whole ghost batches of the layer, whatever the key train.ghost_batch is.
TEST(OwnTaskRanks, NormaliseAsOneProcessDoes) {
  for (const std::int64_t ghost_batch : {0, 16, 64}) {
    const testing::TemporaryFolder folder;
    const auto task = testing::normalised_task(ghost_batch);
    expect_equal(trained(task, folder / "1", nullptr), trained_by(2, task, folder / "2"), std::to_string(ghost_batch));
  }
}

/// Its normalisation has two names, is called twice, and has two rows for each example.
struct ManyCallsNetwork : testing::NormalisedNetwork {
  explicit ManyCallsNetwork(std::int64_t ghost_batch) : NormalisedNetwork(ghost_batch) {
    register_module("same", norm);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto rows = at::stack({x, 2 * x}, 1).flatten(0, 1);
    return out(torch::tanh(norm(torch::tanh(norm(in(rows)))))).view({-1, 2}).mean(1, true);
  }
};

/// As one process whose micro-batches are the shards.
TEST(OwnTaskRanks, CountTheCallsOfANormalisation) {
  const testing::TemporaryFolder folder;
  const auto task = testing::normalised_task<ManyCallsNetwork>(16);
  const auto one = trained(task, folder / "1", nullptr, "train.micro_batch=32");
  expect_equal(one, trained_by(2, task, folder / "2"), "two ranks");
}

}  // namespace
}  // namespace covnoise
