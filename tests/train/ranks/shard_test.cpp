#include "train/ranks/shard.h"

#include "covnoise/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

Config sharded(const std::string& model, std::int64_t ghost_batch) {
  Config config;
  config.model = model;
  config.train.ghost_batch = config.noise.small_batch = ghost_batch;
  return config;
}

std::vector<std::int64_t> counts(const Sharding& sharding, std::int64_t batch, int ranks) {
  std::vector<std::int64_t> result;
  std::int64_t next = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Shard shard = sharding.shard(batch, rank, ranks);
    EXPECT_EQ(shard.first, next);
    EXPECT_EQ(shard.first + shard.count + shard.after(), batch);
    next = shard.first + shard.count;
    result.push_back(shard.count);
  }
  EXPECT_EQ(next, batch);
  return result;
}

TEST(Sharding, GivesWholeGhostBatches) {
  const Sharding sharding(sharded("resnet8", 8), {}, /*batch_statistics=*/true);
  EXPECT_THAT(counts(sharding, 64, 4), ::testing::ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(counts(sharding, 80, 4), ::testing::ElementsAre(24, 24, 16, 16));
  EXPECT_THAT(counts(sharding, 16, 4), ::testing::ElementsAre(8, 8, 0, 0));
  EXPECT_THAT(counts(sharding, 4, 2), ::testing::ElementsAre(4, 0));
}

TEST(Sharding, GivesTwoGhostBatchesWhereTheyAreCompared) {
  Needs needs;
  needs.squares = Squares::kGhost;
  const Sharding sharding(sharded("resnet8", 8), needs, /*batch_statistics=*/true);
  EXPECT_THAT(counts(sharding, 64, 4), ::testing::ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(counts(sharding, 40, 4), ::testing::ElementsAre(24, 16, 0, 0));
  EXPECT_THAT(counts(sharding, 8, 2), ::testing::ElementsAre(8, 0));  // no noise at the small batch itself
}

TEST(Sharding, GivesTwoMicroBatchesWhereThoseAreCompared) {
  Needs needs;
  needs.squares = Squares::kMicro;
  Config config = sharded("lenet", 8);
  config.train.micro_batch = 4;
  const Sharding sharding(config, needs, false);
  EXPECT_THAT(counts(sharding, 32, 4), ::testing::ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(counts(sharding, 24, 4), ::testing::ElementsAre(8, 8, 8, 0));
}

/// Plain steps compare micro-batches of 8, sharp ones of 16.
TEST(Sharding, GivesTwoMicroBatchesOfPlainAndOfSharpSteps) {
  Needs needs;
  needs.squares = Squares::kMicro;
  Config config = sharded("lenet", 8);
  config.train.micro_batch = 8;
  config.train.sharpness = 0.1;
  config.train.sharpness_batch = 16;
  config.train.sharpness_every = 2;
  const Sharding sharding(config, needs, false);
  EXPECT_THAT(counts(sharding, 64, 4), ::testing::ElementsAre(32, 32, 0, 0));
  config.train.sharpness_batch = 64;  // more than an early batch has
  EXPECT_THAT(counts(Sharding(config, needs, false), 32, 2), ::testing::ElementsAre(32, 0));
  EXPECT_THAT(counts(Sharding(config, needs, false), 256, 2), ::testing::ElementsAre(128, 128));
}

TEST(Sharding, GivesWholeMicroBatchesWithSharpness) {
  Config config = sharded("lenet", 8);
  config.train.sharpness = 0.1;
  config.train.sharpness_batch = 16;
  const Sharding sharding(config, {}, false);
  EXPECT_THAT(counts(sharding, 64, 3), ::testing::ElementsAre(32, 16, 16));
  EXPECT_THAT(counts(sharding, 8, 2), ::testing::ElementsAre(8, 0));
  EXPECT_THAT([&] { sharding.shard(40, 0, 2); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("micro-batches of 16 for sharpness")));
}

TEST(Sharding, GivesSingleExamplesWhereNothingBindsThem) {
  EXPECT_THAT(counts(Sharding(sharded("lenet", 8), {}, false), 10, 4), ::testing::ElementsAre(3, 3, 2, 2));
  Needs needs;
  needs.squares = Squares::kGhost;
  EXPECT_THAT([&] { Sharding(sharded("lenet", 8), needs, false).shard(20, 0, 2); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("20 examples is not a multiple of the 8 examples")));
}

}  // namespace
}  // namespace covnoise
