#include "covnoise/core/internal/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace covnoise {
namespace {

TEST(ProgressLine, ShowsBarPercentageRateAndTimeLeft) {
  EXPECT_EQ(progress_line("epoch 3", 5, 10, "1830 images/s", 67.4, 54),
            "epoch 3  [=====>     ]  50 %  1830 images/s  1:07 left");
  EXPECT_EQ(progress_line("x", 10, 10, "", -1, 21), "x  [==========] 100 %");
  EXPECT_EQ(progress_line("x", 0, 4, "", 7325, 80).substr(44), "]   0 %  2:02:05 left");
}

TEST(ProgressLine, FitsNarrowTerminals) {
  for (int width = 0; width < 80; ++width) {
    EXPECT_LE(progress_line("label", 3, 4, "rate", 1, width).size(), static_cast<std::size_t>(width));
  }
}

TEST(ProgressBar, PrintsNothingWhereItIsNotEnabled) {
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar(10, "quiet", false);
    bar.update(5, "rate");
    bar.clear();
    bar.finish();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressBar, RedrawsOneLine) {
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar(10, "loud", true);
    bar.update(5);
    bar.update(10);
    bar.finish();
  }
  const auto text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("\rloud  ["), std::string::npos);
  EXPECT_NE(text.find("100 %"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

}  // namespace
}  // namespace covnoise
