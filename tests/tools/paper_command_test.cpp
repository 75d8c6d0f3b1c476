#include "covnoise/core/internal/file.h"
#include "support/paths.h"
#include "support/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PaperCommand : public testing::ProgramFixture {
 protected:
  PaperCommand() : ProgramFixture({"paper"}) {}
};

TEST_F(PaperCommand, PlansAnItem) {
  const auto [code, output] = run({"table2", "--plan", "--seeds", "0,1", "--rows", "cifar10-vgg16"});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, HasSubstr("10 runs"));
  EXPECT_THAT(output, HasSubstr("cifar10-vgg16/lb-diag-match-s1"));
  EXPECT_THAT(run({"fig4", "--dry-run"}).output, HasSubstr("no training"));
}

TEST_F(PaperCommand, SaysWhatItsFoldersAreForAndHowLongItTakes) {
  const auto help = run({"--help"}).output;
  EXPECT_THAT(help, HasSubstr("folder for runs/ and logs/, and for results/ unless --results is given"));
  EXPECT_THAT(help, HasSubstr("folder whose tables, figures and records are read and written"));
  for (const auto& text : {help, read_file(testing::source_dir() / "docs/paper.md")})
    EXPECT_THAT(text, HasSubstr("about a minute on two cores"));
}

TEST_F(PaperCommand, RefusesInOneLine) {
  expect_one_line({}, "needs an item");
  expect_one_line({"tabel2", "--plan"}, "did you mean table2");
  expect_one_line({"table2", "--plan", "--set", "train.lrr=1"}, "train.lr");
  expect_one_line({"table2", "--plan", "--jobs", "0"}, "--jobs: '0' is not a number above 0");
  expect_one_line({"table2", "--plan", "--jobs", "two"}, "--jobs: 'two' is not a number above 0");
  expect_one_line({"table2", "--plan", "--minutes", "0"}, "--minutes: '0' is not a number above 0");
  expect_one_line({"table2", "--plan", "--recipes", (folder_ / "none").string()}, "covnoise paper recipes");
  write_file_synced(folder_ / "plain.md", "no markers");
  create_folders(folder_ / "results");
  expect_one_line({"docs", "--results", (folder_ / "results").string(), "--write", (folder_ / "plain.md").string()},
                  "no place for results");
}

TEST_F(PaperCommand, FillsADocumentBetweenItsMarkers) {
  const std::string out = (folder_ / "out").string(), file = (folder_ / "docs/results.md").string();
  const auto [made, text] = run({"fig4", "--quick", "--out", out});
  ASSERT_EQ(made, 0) << text;
  EXPECT_THAT(text, HasSubstr("fig4.svg"));
  create_folders(folder_ / "docs");
  write_file_synced(file,
                    "# By hand\n<!-- paper fig4 -->\nold\n<!-- end fig4 -->\nBy hand, too.\n<!-- paper table2 -->\n"
                    "<!-- end table2 -->\n");
  const std::vector<std::string> fill = {"docs", "--results", out + "/results", "--write", file};
  ASSERT_EQ(run(fill).code, 0);
  const std::string filled = read_file(file);
  EXPECT_THAT(filled, HasSubstr("# By hand\n<!-- paper fig4 -->\n### Figure 4"));
  EXPECT_THAT(filled, HasSubstr("<!-- end fig4 -->\nBy hand, too.\n"));
  EXPECT_THAT(filled, HasSubstr("(../out/results/fig4/fig4.svg)"));
  EXPECT_THAT(filled, HasSubstr("Table 2: test accuracy by regime: not run yet.\n<!-- end table2 -->"));
  EXPECT_THAT(filled, Not(HasSubstr("old")));
  EXPECT_THAT(run(fill).output, HasSubstr("nothing changed"));
}

}  // namespace
}  // namespace covnoise
