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
  durations.add(of("lenet", 128, 10), 20);
  auto other = of("lenet", 128, 10);
  other.seed = 7;
  other.train.lr = 0.3;
  durations.add(other, 30);
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 128, 10), 0).value(), 30);
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 128, 10), 8).value(), 6) << "of a run that is resumed";
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 128, 50), 0).value(), 150);
}

/// Without a run of the same noise, any of the same batch is better than nothing.
TEST(Durations, AreElseThoseOfASimilarRun) {
  Durations durations;
  durations.add(of("lenet", 4096, 10), 20);
  auto noisy = of("lenet", 4096, 10);
  noisy.noise.structure = "full-fisher";
  EXPECT_DOUBLE_EQ(durations.left(noisy, 0).value(), 20);
  durations.add(noisy, 50);
  EXPECT_DOUBLE_EQ(durations.left(noisy, 0).value(), 50);
  EXPECT_DOUBLE_EQ(durations.left(of("lenet", 4096, 10), 0).value(), 20);
}

TEST(Durations, OfOtherNetworksBatchesAndDevicesAreNotKnown) {
  Durations durations;
  durations.add(of("lenet", 4096, 10), 20);
  auto on_gpu = of("lenet", 4096, 10);
  on_gpu.run.device = "cuda";
  EXPECT_FALSE(durations.left(of("mlp", 4096, 10), 0).has_value());
  EXPECT_FALSE(durations.left(of("lenet", 128, 10), 0).has_value());
  EXPECT_FALSE(durations.left(on_gpu, 0).has_value());
}

}  // namespace
}  // namespace covnoise
