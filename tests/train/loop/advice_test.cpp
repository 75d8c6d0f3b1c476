#include "train/loop/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Advice, NoiseInTheUpdateMayBeLongerThanTheGradient) {
  Config config;
  config.train.clip_norm = 0.5;
  EXPECT_THAT(advice_for_end_of_noise(config), HasSubstr("noise.clip_norm=2)"));
  config.noise.placement = Placement::kGradient;
  EXPECT_THAT(advice_for_end_of_noise(config), HasSubstr("noise.clip_norm=0.5)"));
}

TEST(Advice, MatchedNoiseCannotBeClippedApart) {
  Config config;
  config.train.clip_norm = 1;
  config.noise.scale.match = true;
  EXPECT_THAT(advice_for_end_of_noise(config),
              AllOf(HasSubstr("by one factor"), HasSubstr("noise.stop_after=1"), Not(HasSubstr("noise.clip_norm"))));
}

TEST(Advice, NoiseThatIsClippedApartIsNotToBeClippedApart) {
  Config config;
  config.train.clip_norm = config.noise.clip_norm = 1;
  EXPECT_THAT(advice_for_end_of_noise(config), Not(HasSubstr("clip the noise apart")));
}

}  // namespace
}  // namespace covnoise
