#include "ops/sample_diagonal.h"

#include "support/device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

/// As Python calls it, with these sizes of the moments and of what the samples are like.
std::vector<at::Tensor> sample(at::IntArrayRef moments, at::IntArrayRef like, std::vector<double> scales = {2.0}) {
  const auto tensor = [](at::IntArrayRef sizes) {
    return c10::List<at::Tensor>({testing::on_device(at::ones(sizes))});
  };
  torch::jit::Stack stack = {tensor(moments), tensor(like), 0.0, 1.0, scales, 7, 4, 5, std::vector<std::int64_t>{0}};
  c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::sample_diagonal", "").callBoxed(&stack);
  return stack.at(0).toTensorVector();
}

std::string error_of(at::IntArrayRef moments, at::IntArrayRef like, std::vector<double> scales = {2.0}) {
  try {
    sample(moments, like, std::move(scales));
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(SampleDiagonal, HasTheSizesOfWhatItIsLike) {
  const auto samples = sample({2, 3, 5}, {3, 5});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].sizes(), at::IntArrayRef({3, 5}));
  EXPECT_TRUE(samples[0].isfinite().all().item<bool>());
}

TEST(SampleDiagonal, OtherSizesAreRefused) {
  EXPECT_THAT(error_of({2, 3}, {4}), ::testing::HasSubstr("two of"));
  EXPECT_THAT(error_of({3, 3}, {3}), ::testing::HasSubstr("two of"));
  EXPECT_THAT(error_of({2, 3}, {3}, {1.0, 1.0}), ::testing::HasSubstr("2 scales"));
}

}  // namespace
}  // namespace covnoise
