#include "covnoise/noise/indexed_numbers.h"

#include "covnoise/ops/random.h"
#include "support/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

constexpr RandomStream kFirstStep{7, Purpose::kSigns, 0}, kSecondStep{7, Purpose::kSigns, 1};

at::TensorOptions double_on_device() { return at::TensorOptions(testing::device()).dtype(at::kDouble); }

at::Tensor signs_of(const RandomStream& stream, std::int64_t count) {
  const auto signs = at::empty({count, 1}, double_on_device());
  fill_signs(signs, stream);
  return signs;
}

TEST(IndexedNumbers, DependOnTheIndexAlone) {
  IndexedNumbers numbers(fill_signs);
  numbers.start(kFirstStep);
  const auto expected = signs_of(kFirstStep, 24);
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 5}, {5, 24}, {3, 4}})
    EXPECT_TRUE(numbers.rows(begin, end, 1, double_on_device()).equal(expected.slice(0, begin, end)));
  EXPECT_FALSE(expected.equal(signs_of(kSecondStep, 24)));
}

/// A captured pass over a small batch reads them again after a larger batch.
TEST(IndexedNumbers, KeepTheirPlaceWhenALargerBatchNeedsMore) {
  IndexedNumbers numbers(fill_signs);
  numbers.start(kFirstStep);
  const auto small = numbers.rows(0, 24, 1, double_on_device());
  numbers.rows(0, 100, 1, double_on_device());
  numbers.start(kSecondStep);
  EXPECT_TRUE(small.equal(signs_of(kSecondStep, 24)));
}

TEST(IndexedNumbers, HaveTheColumnsAndTheTypeAskedFor) {
  IndexedNumbers numbers(fill_uniform);
  numbers.start(kFirstStep);
  const auto two = numbers.rows(1, 4, 2, double_on_device());
  EXPECT_EQ(two.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_TRUE(two.flatten().equal(numbers.rows(2, 8, 1, double_on_device()).flatten()));
  EXPECT_EQ(numbers.rows(0, 4, 2, double_on_device().dtype(at::kFloat)).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace covnoise
