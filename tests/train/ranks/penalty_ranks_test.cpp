// The ghost penalty of a batch that several ranks share is that of one process.
#include "support/ranks.h"
#include "train/stepped.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

struct PenaltyRanksCase {
  std::string name, model;
  int ranks;
  std::vector<std::string> settings;
};

class PenaltyRanks : public ::testing::TestWithParam<PenaltyRanksCase> {};

TEST_P(PenaltyRanks, GiveThePenaltyOfOneProcess) {
  auto settings = GetParam().settings;
  settings.insert(settings.end(), {"train.precision=fp64", "noise.penalty=0.1", "noise.penalty_every=2"});
  const auto config = testing::stepped_config(GetParam().model, 4, settings);
  const auto source = testing::random_images();
  const auto alone = testing::stepped_as(nullptr, config, source, {});
  std::vector<testing::Stepped> ranks(static_cast<std::size_t>(GetParam().ranks));
  testing::as_ranks(GetParam().ranks, [&](Communicator& communicator) {
    ranks[static_cast<std::size_t>(communicator.rank())] =
        testing::stepped_as(&communicator, config, source, testing::kFourBuckets);
  });
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank.weights.equal(ranks[0].weights));
    EXPECT_LT((rank.weights - alone.weights).abs().max().item<double>(), 1e-9);
    for (std::size_t step = 0; step < 4; ++step) {
      ASSERT_EQ(rank.results[step].penalty.has_value(), step % 2 == 0);
      if (step % 2 != 0) continue;
      EXPECT_NEAR(*rank.results[step].penalty, *alone.results[step].penalty, 1e-9);
      EXPECT_NEAR(*rank.results[step].penalty_norm, *alone.results[step].penalty_norm, 1e-7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, PenaltyRanks,
    ::testing::Values(PenaltyRanksCase{"normalised", "resnet8", 2, {}},
                      PenaltyRanksCase{"clipped", "mlp", 2, {"train.clip_norm=0.5", "noise.structure=fisher-trace"}},
                      PenaltyRanksCase{"adamw", "mlp", 2, {"train.optimizer=adamw", "train.lr=1e-3"}},
                      PenaltyRanksCase{"groups_cut_by_ranks", "mlp", 3, {"noise.group=8"}},
                      PenaltyRanksCase{"a_rank_without_examples", "resnet8", 3, {"train.ghost_batch=8"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace covnoise
