// What `covnoise runs` and the tables of `covnoise paper` know of a run.
#include "covnoise/train/run_summary.h"

#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/run_folder.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunSummary, HasTheWarningsOfARun) {
  const testing::TemporaryFolder folder;
  const auto summary_of = [&](const std::string& name, const std::string& about) {
    create_folders(folder / name);
    write_file_synced(RunFolder{folder / name}.config(), to_toml(Config()));
    const std::string epoch = R"({"kind":"epoch","step":12,"epoch":1,"train_loss":3,"test_accuracy":0.5})";
    const std::string warning = R"({"kind":"warning","step":12,"epoch":1,)" + about + R"("message":"what is wrong"})";
    write_file_synced(RunFolder{folder / name}.metrics(), epoch + "\n" + warning + "\n");
    return summarize_run(folder / name);
  };
  const auto loss = summary_of("loss", R"("about":"loss",)"), noise = summary_of("noise", R"("about":"noise",)");
  EXPECT_THAT(loss.warnings, ElementsAre("what is wrong"));
  EXPECT_TRUE(loss.loss_above_guessing);
  EXPECT_THAT(noise.warnings, ElementsAre("what is wrong"));
  EXPECT_FALSE(noise.loss_above_guessing);
  EXPECT_TRUE(summary_of("old", "").loss_above_guessing) << "version 0.2 had no other";
  EXPECT_THAT(runs_table({noise}), HasSubstr("\n" + (folder / "noise").string() + ": what is wrong\n"));
}

}  // namespace
}  // namespace covnoise
