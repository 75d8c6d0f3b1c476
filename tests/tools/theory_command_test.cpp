#include "covnoise/core/internal/csv.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/plot/figure.h"
#include "support/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TheoryCommand : public testing::ProgramFixture {
 protected:
  TheoryCommand() : ProgramFixture({"theory"}) {}

  /// The files exist, are not empty, and are named in the output.
  void expect_files(const fs::path& out, std::vector<std::string> names, const std::string& output) {
    for (auto& name : names) {
      if (fs::path(name).extension() == ".png" && !plot::png_available()) continue;
      EXPECT_GT(fs::file_size(out / name), 100u) << name;
      EXPECT_THAT(output, HasSubstr((out / name).string()));
    }
  }
};

TEST_F(TheoryCommand, QuadraticWritesNumbersAndFigures) {
  write_file_synced(folder_ / "A.csv", "2,0.5\n0.5,1\n");
  write_file_synced(folder_ / "C.csv", "1,0\n0.2,1\n");
  const fs::path out = folder_ / "q";
  const auto [code, output] =
      run({"quadratic", "--matrix", (folder_ / "A.csv").string(), "--noise",
           "full,diagonal," + (folder_ / "C.csv").string(), "--trajectories", "200", "--iterations", "50", "--horizon",
           "2000", "--error", "0.5,0.1", "--out", out.string()});
  ASSERT_EQ(code, 0) << output;
  expect_files(out,
               {"loss.csv", "simulated.csv", "steps.csv", "stationary.csv", "trajectories.csv", "quadratic.json",
                "quadratic.svg", "quadratic.png", "trajectories.svg", "trajectories.png"},
               output);
}

TEST_F(TheoryCommand, QuadraticTakesConstantStepsAndASpectrum) {
  const fs::path out = folder_ / "q";
  const auto [code, output] = run({"quadratic", "--spectrum", "1,0.5,0.2", "--rate", "0.1", "--trajectories", "100",
                                   "--iterations", "20", "--horizon", "500", "--out", out.string()});
  ASSERT_EQ(code, 0) << output;
  expect_files(out, {"quadratic.svg", "quadratic.json"}, output);
}

TEST_F(TheoryCommand, RegressionAndStabilityWriteNumbersAndFigures) {
  const fs::path clouds = folder_ / "r", swaps = folder_ / "s";
  const auto regression = run({"regression", "--points", "50", "--start", "1,2", "--out", clouds.string()});
  ASSERT_EQ(regression.code, 0) << regression.output;
  expect_files(clouds, {"points.csv", "regression.json", "regression.svg", "regression.png"}, regression.output);
  const auto stability = run({"stability", "--examples", "20", "--dimension", "2", "--replacements", "2",
                              "--trajectories", "100", "--simulate-until", "2", "--out", swaps.string()});
  ASSERT_EQ(stability.code, 0) << stability.output;
  expect_files(swaps, {"curves.csv", "simulated.csv", "scaled.csv", "stability.json", "stability.svg", "stability.png"},
               stability.output);
}

/// The numbers of a table, without its words.
std::vector<double> numbers_of(const std::string& csv) {
  std::vector<double> numbers;
  std::string cell;
  for (const char c : csv) {
    if (c != ',' && c != '\n') {
      cell += c;
      continue;
    }
    char* end = nullptr;
    const double number = std::strtod(cell.c_str(), &end);
    if (!cell.empty() && *end == '\0') numbers.push_back(number);
    cell.clear();
  }
  return numbers;
}

/// Byte for byte with the same number of threads; with others, matrix products may round differently.
TEST_F(TheoryCommand, SameSeedGivesTheSameNumbers) {
  const auto simulated = [&](const std::string& threads, const std::string& name) {
    const auto result = run({"quadratic", "--dimension", "5", "--trajectories", "700", "--iterations", "10",
                             "--horizon", "100", "--threads", threads, "--out", (folder_ / name).string()});
    EXPECT_EQ(result.code, 0) << result.output;
    return read_file(folder_ / name / "simulated.csv");
  };
  const std::string two = simulated("2", "a");
  EXPECT_EQ(two, simulated("2", "b"));
  const auto expected = numbers_of(two), one = numbers_of(simulated("1", "c"));
  ASSERT_EQ(one.size(), expected.size());
  ASSERT_GT(one.size(), 100u);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], expected[i], 1e-11 * std::abs(expected[i]));
}

TEST_F(TheoryCommand, MistakesAreOneLine) {
  write_file_synced(folder_ / "wide.csv", "1,2,3\n4,5,6\n");
  write_file_synced(folder_ / "negative.csv", "1,0\n0,-1\n");
  expect_one_line({"quadratic", "--matrix", (folder_ / "wide.csv").string()}, "wide.csv: the matrix is 2 x 3");
  expect_one_line({"quadratic", "--matrix", (folder_ / "negative.csv").string()}, "not positive definite");
  expect_one_line({"quadratic", "--matrix", (folder_ / "absent.csv").string()}, "absent.csv");
  expect_one_line({"quadratic", "--noise", "diagnal"}, "unknown noise 'diagnal'");
  expect_one_line({"quadratic", "--rate", "5"}, "rate '5' must be");
  expect_one_line({"quadratic", "--spectrum", "log:1"}, "spectrum 'log:1'");
  expect_one_line({"quadratic", "--dimenson", "3"}, "--dimenson");
  expect_one_line({"regression", "--small-batch", "0"}, "small batch 0");
  expect_one_line({"stability", "--examples", "3"}, "3 examples in 4 dimensions");
  expect_one_line({"stability", "--out", (folder_ / "wide.csv" / "inside").string(), "--examples", "20", "--dimension",
                   "2", "--replacements", "1", "--trajectories", "10", "--simulate-until", "0.2"},
                  "wide.csv");
}

}  // namespace
}  // namespace covnoise
