#include "support/program.h"

namespace covnoise {
namespace {

using ::testing::HasSubstr;

class SweepCommand : public testing::ProgramFixture {
 protected:
  SweepCommand() : ProgramFixture({"sweep"}) {}
};

TEST_F(SweepCommand, PlansWithoutTraining) {
  const auto out = folder_ / "sweep";
  const auto [code, output] = run(
      {"--set", "data=glyphs", "--vary", "train.lr=0.1,0.2", "--vary", "seed=0,1", "--plan", "--out", out.string()});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, HasSubstr("4 runs"));
  EXPECT_THAT(output, HasSubstr("lr0.2-s1"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(SweepCommand, RefusesInOneLine) {
  expect_one_line({}, "at least one --vary");
  expect_one_line({"--vary", "train.lrr=1", "--plan"}, "train.lr");
  expect_one_line({(folder_ / "none.toml").string(), "--vary", "train.lr=1"}, "none.toml");
}

}  // namespace
}  // namespace covnoise
