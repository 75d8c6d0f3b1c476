#include "covnoise/core/internal/did_you_mean.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

TEST(Suggestion, DistanceCountsInsertionsRemovalsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("lenet", "lenet"), 0);
}

TEST(Suggestion, NamesTheClosestAndAllKnown) {
  EXPECT_EQ(unknown_name("model", "lennet", {"mlp", "lenet"}),
            "unknown model lennet (did you mean lenet?); known: mlp, lenet");
  EXPECT_EQ(unknown_name("model", "transformer", {"mlp", "lenet"}), "unknown model transformer; known: mlp, lenet");
}

TEST(Suggestion, ALongNameGetsNone) {
  const std::string known(70, 'a');
  EXPECT_EQ(unknown_name("key", known + "b", {known}), "unknown key " + known + "b; known: " + known);
}

}  // namespace
}  // namespace covnoise
