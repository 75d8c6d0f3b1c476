#include "covnoise/plot/figure.h"
#include "support/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class AnalyzeCommand : public testing::ProgramFixture {
 protected:
  /// A network after four steps, with snapshots at 0, 2 and 4.
  std::string trained(const std::string& model, const std::string& seed = "0") {
    const std::string out = (folder_ / (model + seed)).string();
    const auto [code, output] =
        run({"train", "--model", model, "--data", "glyphs", "--regime", "sb", "--epochs", "1", "--seed", seed, "--out",
             out, "--set", "data.train_limit=512", "--set", "data.test_limit=100", "--set", "train.snapshot_every=2"});
    EXPECT_EQ(code, 0) << output;
    return out;
  }

  void expect_good(const std::vector<std::string>& arguments, const fs::path& folder,
                   const std::vector<std::string>& files) {
    const auto [code, output] = run(arguments);
    ASSERT_EQ(code, 0) << output;
    for (const auto& file : files) {
      if (fs::path(file).extension() == ".png" && !plot::png_available()) continue;
      EXPECT_GT(fs::exists(folder / file) ? fs::file_size(folder / file) : 0, 100u) << file;
      EXPECT_THAT(output, HasSubstr(file));
    }
  }

  testing::TemporaryFolder holder_;
  fs::path folder_ = holder_.path();
};

TEST_F(AnalyzeCommand, HelpHasTheRuleOfTheSamples) {
  EXPECT_THAT(run({"analyze", "variance", "--help"}).output, HasSubstr("a multiple of 8 and at least 16"));
}

TEST_F(AnalyzeCommand, EveryAnalysisWritesNumbersAndFigures) {
  const std::string lenet = trained("lenet"), resnet = trained("resnet8");
  expect_good({"analyze", "variance", resnet, "--samples", "16", "--small-batch", "8", "--large-batch", "16",
               "--regimes", "sb,lb,lb-diag,lb-full"},
              resnet, {"variance.csv", "variance.json", "variance.svg", "variance.png"});
  expect_good({"analyze", "frobenius", lenet, "--examples", "20", "--batches", "2"}, lenet,
              {"frobenius.csv", "frobenius.json", "frobenius.svg", "frobenius.png"});
  const fs::path out = folder_ / "both";
  expect_good({"analyze", "hessian", lenet, resnet, "--examples", "40", "--top", "2", "--tolerance", "0.05",
               "--density", "1", "--density-steps", "5", "--out", out.string()},
              out, {"hessian.csv", "hessian.json", "spectrum.csv", "hessian.svg", "hessian.png"});
}

TEST_F(AnalyzeCommand, WhatIsNoRunIsRefusedAndStaysAsItWas) {
  const auto missing = folder_ / "missing";
  for (const char* analysis : {"fisher", "variance", "frobenius", "hessian"}) {
    const auto [code, output] = run({"analyze", analysis, missing.string()});
    EXPECT_EQ(code, 1) << analysis;
    EXPECT_EQ(output, "covnoise: " + missing.string() + " is not a run: it has no config.toml\n");
    EXPECT_FALSE(fs::exists(missing)) << analysis;
  }
}

TEST_F(AnalyzeCommand, TakesSnapshots) {
  const std::string lenet = trained("lenet");
  expect_good({"analyze", "frobenius", lenet, "--steps", "0,4", "--examples", "20", "--batches", "2"}, lenet,
              {"frobenius.csv"});
  expect_good({"analyze", "fisher", lenet, "--step", "2", "--examples", "20"}, lenet, {"fisher.safetensors"});
  expect_one_line({"analyze", "fisher", lenet, "--step", "3"}, "no network of step 3; available steps: 0, 2, 4");
  const fs::path snapshot = fs::path(lenet) / "snapshots/step-00000002.safetensors";
  std::fstream(snapshot, std::ios::in | std::ios::out).seekp(5000).put('x');
  expect_one_line({"analyze", "fisher", lenet, "--step", "2"}, "step-00000002.safetensors is damaged");
}

TEST_F(AnalyzeCommand, MistakesAreOneLine) {
  const std::string lenet = trained("lenet");
  expect_one_line({"analyze", "variance", (folder_ / "absent").string()}, "is not a run");
  expect_one_line({"analyze", "variance", lenet, "--regimes", "lb-dia"}, "unknown regime lb-dia");
  expect_one_line({"analyze", "variance", lenet, "--samples", "5"},
                  "the number of samples, 5, must be a multiple of 8");
  expect_one_line({"analyze", "frobenius", lenet, "--mode", "train", "--examples", "20"},
                  "not a multiple of the ghost batch, 128");
  expect_one_line({"analyze", "hessian", lenet, "--examples", "9999"}, "--examples 9999 exceeds the");
  expect_one_line({"analyze", "hessian", lenet, "--top", "0"}, "0 eigenvalues");
}

}  // namespace
}  // namespace covnoise
