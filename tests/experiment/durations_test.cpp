#include "experiment/durations.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

Config of(const std::string& model, std::int64_t batch, std::int64_t epochs) {
  Config config;
  config.model = model;
  config.train.batch = batch;
  config.train.epochs = epochs;
  return config;
}

TEST(Durations, AreThoseOfTheSlowestRunWithTheSameWork) {
  Durations durations;
  durations.add(of("lenet", 128, 10), 20, 1);
  auto other = of("lenet", 128, 10);
  other.seed = 7;
  other.train.lr = 0.3;
  durations.add(other, 30, 1);
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 128, 10), 0, 1).value(), 30);
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 128, 10), 8, 1).value(), 6) << "of a run that is resumed";
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 128, 50), 0, 1).value(), 150);
}

/// Without a run of the same noise, any of the same batch is better than nothing.
TEST(Durations, AreElseThoseOfASimilarRun) {
  Durations durations;
  durations.add(of("lenet", 4096, 10), 20, 1);
  auto noisy = of("lenet", 4096, 10);
  noisy.noise.structure = "full-fisher";
  EXPECT_DOUBLE_EQ(durations.left(noisy, 0, 1).value(), 20);
  durations.add(noisy, 50, 1);
  EXPECT_DOUBLE_EQ(durations.left(noisy, 0, 1).value(), 50);
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 4096, 10), 0, 1).value(), 20);
}

TEST(Durations, OfOtherNetworksBatchesAndDevicesAreNotKnown) {
  Durations durations;
  durations.add(of("lenet", 4096, 10), 20, 1);
  auto on_gpu = of("lenet", 4096, 10);
  on_gpu.run.device = "cuda";
  EXPECT_FALSE(durations.left(of("mlp", 4096, 10), 0, 1).has_value());
  EXPECT_FALSE(durations.left(of("lenet", 128, 10), 0, 1).has_value());
  EXPECT_FALSE(durations.left(on_gpu, 0, 1).has_value());
}

/// A device that is shared is slower: runs that shared it with as many others count, or with the next larger number.
TEST(Durations, AreThoseBesideAsManyOthers) {
  Durations durations;
  const auto config = of("lenet", 4096, 10);
  durations.add(config, 20, 1);
  durations.add(config, 70, 3);
  durations.add(config, 60, 3);
  EXPECT_DOUBLE_EQ(durations.left(config, 0, 1).value(), 20);
  EXPECT_DOUBLE_EQ(durations.left(config, 0, 2).value(), 70);
  EXPECT_DOUBLE_EQ(durations.left(config, 0, 3).value(), 70);
  EXPECT_DOUBLE_EQ(durations.left(config, 0, 6).value(), 140) << "twice as many as in any run";
  EXPECT_DOUBLE_EQ(durations.left(config, 5, 6).value(), 70) << "of a run that is resumed";
}

TEST(Durations, CountAsThoseOfARunAloneWhereNothingIsRecorded) {
  Durations durations;
  const auto config = of("lenet", 4096, 10);
  durations.add(config, 20, 0);
  EXPECT_DOUBLE_EQ(durations.left(config, 0, 1).value(), 20);
  EXPECT_DOUBLE_EQ(durations.left(config, 0, 2).value(), 40);
}

}  // namespace
}  // namespace covnoise
