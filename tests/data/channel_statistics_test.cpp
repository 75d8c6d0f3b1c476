#include "covnoise/data/dataset.h"

#include <gtest/gtest.h>

namespace covnoise::testing {
namespace {

TEST(ChannelStatistics, EqualTheDefinition) {
  torch::manual_seed(1);
  const at::Tensor images = torch::randint(0, 256, {2000, 3, 5, 7}, torch::kByte);
  const at::Tensor scaled = images.to(torch::kDouble).div(255).transpose(0, 1).reshape({3, -1});
  const ChannelStatistics statistics = channel_statistics(images);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(statistics.mean[c], scaled[c].mean().item<double>(), 1e-12);
    EXPECT_NEAR(statistics.std[c], scaled[c].std(/*unbiased=*/false).item<double>(), 1e-10);
  }
}

TEST(ChannelStatistics, DoNotDependOnThreads) {
  torch::manual_seed(2);
  const at::Tensor images = torch::randint(0, 256, {5000, 1, 4, 4}, torch::kByte);
  const int threads = at::get_num_threads();
  const ChannelStatistics many = channel_statistics(images);
  at::set_num_threads(1);
  const ChannelStatistics one = channel_statistics(images);
  at::set_num_threads(threads);
  EXPECT_EQ(one.mean, many.mean);
  EXPECT_EQ(one.std, many.std);
}

TEST(ChannelStatistics, HoldLargeBrightImages) {
  const ChannelStatistics statistics = channel_statistics(torch::full({2, 1, 600, 600}, 255, torch::kByte));
  EXPECT_EQ(statistics.mean[0], 1);
  EXPECT_EQ(statistics.std[0], 1);  // a constant channel
}

}  // namespace
}  // namespace covnoise::testing
