#include "experiment/gpu_slots.h"

#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace covnoise {
namespace {

class GpuSlotsTest : public ::testing::Test {
 protected:
  std::size_t taken(const std::string& device) const { return gpu_slots_taken(folder_.path() / "slots", device); }
  std::optional<FileLock> take(const std::string& device) const {
    return take_gpu_slot(folder_.path() / "slots", device);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(GpuSlotsTest, AreCountedByDeviceUntilTheirTrainingEnds) {
  EXPECT_EQ(taken("cuda"), 0u);
  auto first = take("cuda"), second = take("cuda:0");
  const auto other = take("cuda:1");
  EXPECT_EQ(taken("cuda"), 2u);
  EXPECT_EQ(taken("cuda:0"), 2u);
  EXPECT_EQ(taken("cuda:1"), 1u);
  first.reset();
  EXPECT_EQ(taken("cuda"), 1u) << "of the second slot, behind a free one";
  first = take("cuda");
  EXPECT_EQ(taken("cuda"), 2u);
}

TEST_F(GpuSlotsTest, KnowTheDeviceThatAProcessSees) {
  const auto all = take("cuda:3");
  ::setenv("CUDA_VISIBLE_DEVICES", "2,3", 1);
  EXPECT_EQ(taken("cuda:1"), 1u);
  EXPECT_EQ(taken("cuda"), 0u);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(GpuSlotsTest, AreNotNeededToTrain) {
  EXPECT_FALSE(take_gpu_slot("/proc/covnoise", "cuda").has_value());
  EXPECT_EQ(gpu_slots_taken("/proc/covnoise", "cuda"), 0u);
}

}  // namespace
}  // namespace covnoise
