#include "covnoise/core/internal/gzip.h"

#include "covnoise/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Longer than the buffers, and it does not compress to nothing.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 60000; ++i) text += std::to_string(i * 7919 % 10007);
  return text;
}

TEST(Gzip, ComesBack) {
  for (const auto& text : {std::string(), std::string("a\0b", 3), long_text()}) {
    EXPECT_EQ(gunzip(gzip(text), "file"), text);
  }
  EXPECT_LT(gzip(long_text()).size(), long_text().size());
}

/// RFC 1952: bytes 4 to 7 are the time, and a flag of byte 3 would announce a name.
TEST(Gzip, HasNoTimeAndNoName) {
  const std::string bytes = gzip("text");
  EXPECT_EQ(bytes.substr(3, 5), std::string(5, '\0'));
}

TEST(Gzip, DamageIsOneLineWithTheFile) {
  const std::string bytes = gzip(long_text());
  const auto expect = [](const std::string& damaged, const std::string& reason) {
    EXPECT_THAT([&] { gunzip(damaged, "a.gz"); }, ThrowsMessage<Error>(HasSubstr(reason)));
    EXPECT_THAT([&] { gunzip(damaged, "a.gz"); }, ThrowsMessage<Error>(HasSubstr("a.gz: ")));
  };
  expect(bytes.substr(0, bytes.size() / 2), "ends too early");
  expect("", "ends too early");
  expect("no gzip", "damaged");
  expect(bytes + "x", "more data after byte");
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 4);
  expect(flipped, "damaged");
}

TEST(Gzip, MoreDataThanAllowedIsRefused) {
  const std::string zeros = gzip(std::string(10'000'000, '\0'));
  EXPECT_THAT([&] { gunzip(zeros, "bomb.gz", 1'000'000); }, ThrowsMessage<Error>(HasSubstr("more than 1000000 bytes")));
}

}  // namespace
}  // namespace covnoise
