#include "experiment/gpu_packing.h"

#include <gtest/gtest.h>

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

TEST(GpuPacking, OfARunIsTheMost) {
  Packing packing(nlohmann::ordered_json::object());
  packing.add_process();
  EXPECT_TRUE(packing.add_side_by_side(2));
  EXPECT_FALSE(packing.add_side_by_side(1));
  EXPECT_EQ(packing.to_json().dump(), R"({"side_by_side":2})");
  Packing resumed(packing.to_json());
  resumed.add_process();
  EXPECT_FALSE(resumed.add_side_by_side(1));
}

TEST(GpuPacking, OfARunThatWasLimitedToAPartKeepsThatPart) {
  Packing resumed(nlohmann::ordered_json::parse(R"({"side_by_side":2,"mps_percentage":"16, 30"})"));
  resumed.add_process();
  EXPECT_TRUE(resumed.add_side_by_side(1)) << "another percentage";
  EXPECT_EQ(resumed.to_json().dump(), R"({"side_by_side":2,"mps_percentage":"16, 30, 100"})");
  EXPECT_FALSE(resumed.alone());
  Packing again(resumed.to_json());
  again.add_process();
  EXPECT_FALSE(again.add_side_by_side(2));
  EXPECT_EQ(again.to_json(), resumed.to_json());
}

TEST(GpuPacking, OnACpuTheOrderAndTheNumberDecide) {
  const Config small = run_of("cpu", 128), large = run_of("cpu", 4096);
  EXPECT_EQ(next_to_start({&large, &small}, {&small}, 2), 0u);
  EXPECT_FALSE(next_to_start({&large}, {&small}, 1).has_value());
  EXPECT_FALSE(next_to_start({&large}, {&small}, 0).has_value());
}

}  // namespace
}  // namespace covnoise
