#include "experiment/gpu_packing.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace covnoise {
namespace {

Config run_of(const char* device, std::int64_t batch) {
  Config config;
  config.run.device = device;
  config.train.batch = batch;
  return config;
}

TEST(GpuPacking, AGpuHasRoomForFourSmallBatchesOrTwoLargeOnes) {
  EXPECT_EQ(side_by_side(run_of("cuda", 128), 0), 4);
  EXPECT_EQ(side_by_side(run_of("cuda", 4096), 0), 2);
  EXPECT_EQ(side_by_side(run_of("cuda:1", 4096), 0), 2);
  EXPECT_EQ(side_by_side(run_of("cpu", 128), 0), 1);
  EXPECT_EQ(side_by_side(run_of("cpu", 128), 5), 5);
}

TEST(GpuPacking, SmallAndLargeBatchesDoNotShareAGpu) {
  const Config small = run_of("cuda", 128), large = run_of("cuda", 4096);
  EXPECT_EQ(next_to_start({&large, &small, &small}, {}, 0), 0u);
  EXPECT_EQ(next_to_start({&large, &large, &small}, {&small}, 0), 2u);  // not in the order of the list
  EXPECT_EQ(next_to_start({&large, &small}, {&large}, 0), 0u);
  EXPECT_FALSE(next_to_start({&large}, {&small}, 0).has_value());
  EXPECT_FALSE(next_to_start({&large}, {&small}, 8).has_value());
  EXPECT_FALSE(next_to_start({&small}, {&small, &small, &small, &small}, 0).has_value());
  EXPECT_FALSE(next_to_start({}, {}, 0).has_value());
}

TEST(GpuPacking, ManySmallBatchesAreLimitedToAPartOfTheGpu) {
  EXPECT_EQ(mps_percentage(run_of("cuda", 128), 0), "30");
  EXPECT_EQ(mps_percentage(run_of("cuda", 128), 7), "30");
  EXPECT_EQ(mps_percentage(run_of("cuda", 128), 3), "");
  EXPECT_EQ(mps_percentage(run_of("cuda", 4096), 7), "");
  EXPECT_EQ(mps_percentage(run_of("cpu", 128), 7), "");
  ::setenv(kMpsPercentage, "50", 1);
  EXPECT_EQ(mps_percentage(run_of("cuda", 128), 7), "50") << "the user's own limit";
  EXPECT_EQ(mps_percentage(run_of("cpu", 128), 7), "");
  ::unsetenv(kMpsPercentage);
}

TEST(GpuPacking, OnACpuTheOrderAndTheNumberDecide) {
  const Config small = run_of("cpu", 128), large = run_of("cpu", 4096);
  EXPECT_EQ(next_to_start({&large, &small}, {&small}, 2), 0u);
  EXPECT_FALSE(next_to_start({&large}, {&small}, 1).has_value());
  EXPECT_FALSE(next_to_start({&large}, {&small}, 0).has_value());
}

}  // namespace
}  // namespace covnoise
