#include "covnoise/core/internal/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

TEST(Json, ParsesWithinItsLimits) {
  EXPECT_EQ(parse_json(R"({"b":[1,{"c":2.5}],"a":null})").dump(), R"({"b":[1,{"c":2.5}],"a":null})");
  EXPECT_TRUE(parse_json<nlohmann::json>("[]").is_array());
  EXPECT_FALSE(parse_json(nested(64)).is_discarded());
}

TEST(Json, DiscardsWhatIsNone) {
  for (const char* text : {"", "{", "[1,]", "{} x", "nan"}) EXPECT_TRUE(parse_json(text).is_discarded()) << text;
}

TEST(Json, DiscardsDeepNesting) {
  EXPECT_TRUE(parse_json(nested(65)).is_discarded());
  EXPECT_TRUE(parse_json("{\"a\":" + nested(64) + ",\"b\":1}").is_discarded());
  EXPECT_TRUE(parse_json(std::string(1'000'000, '[')).is_discarded());
}

TEST(Json, DiscardsObjectsOfVeryManyKeys) {
  std::string text = "{";
  for (int i = 0; i <= 10'000; ++i) text += fmt::format("\"{}\":0,", i);
  text.back() = '}';
  EXPECT_TRUE(parse_json(text).is_discarded());
}

}  // namespace
}  // namespace covnoise
