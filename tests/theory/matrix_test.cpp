#include "covnoise/theory/matrix.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/csv.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/safetensors.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise::theory {
namespace {

std::string complaint(const std::filesystem::path& path) {
  try {
    read_matrix(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Matrix, ReadsCsvAndSafetensors) {
  const testing::TemporaryFolder folder;
  const at::Tensor expected = at::tensor({1.5, -2.0, 3e-3, 4.0}, at::kDouble).view({2, 2});
  write_file_synced(folder / "a.csv", "x,y\n# a comment\n1.5, -2\n\n3e-3;4\n");
  EXPECT_TRUE(at::equal(read_matrix(folder / "a.csv"), expected));
  write_safetensors(folder / "a.safetensors", {{{"other", at::ones({3})}, {"A", expected}}, {}});
  EXPECT_TRUE(at::equal(read_matrix(folder / "a.safetensors"), expected));
}

TEST(Matrix, SaysWhereAFileIsWrong) {
  const testing::TemporaryFolder folder;
  write_file_synced(folder / "word.csv", "1 2\n3 x\n");
  EXPECT_THAT(complaint(folder / "word.csv"), ::testing::HasSubstr("word.csv, line 2: not a number"));
  write_file_synced(folder / "short.csv", "1 2\n3\n");
  EXPECT_THAT(complaint(folder / "short.csv"),
              ::testing::HasSubstr("line 2: a row of length 1, the rows before it have length 2"));
  write_file_synced(folder / "inf.csv", "1 2\n3 nan\n");
  EXPECT_THAT(complaint(folder / "inf.csv"), ::testing::HasSubstr("line 2: a value is not finite"));
  write_file_synced(folder / "empty.csv", "\n");
  EXPECT_THAT(complaint(folder / "empty.csv"), ::testing::HasSubstr("no numbers"));
  write_safetensors(folder / "flat.safetensors", {{{"A", at::ones({3})}}, {}});
  EXPECT_THAT(complaint(folder / "flat.safetensors"), ::testing::HasSubstr("no matrix"));
  EXPECT_THAT(complaint(folder / "absent.csv"), ::testing::HasSubstr("absent.csv"));
}

TEST(Matrix, WritesNumbersThatReadBackTheSame) {
  const testing::TemporaryFolder folder;
  CsvTable table({"a", "b"});
  table.add(0.1 + 0.2, 1e-17);
  table.add(1.0 / 3, -4);
  table.write(folder / "t.csv");
  const at::Tensor back = read_csv_matrix(folder / "t.csv");
  EXPECT_EQ(back[0][0].item<double>(), 0.1 + 0.2);
  EXPECT_EQ(back[0][1].item<double>(), 1e-17);
  EXPECT_EQ(back[1][0].item<double>(), 1.0 / 3);
  table.add("a, b", "say \"hm\"");
  EXPECT_THAT(table.text(), ::testing::HasSubstr("\"a, b\",\"say \"\"hm\"\"\"\n"));
}

TEST(Matrix, RotatedDiagonalKeepsTheSpectrum) {
  const auto spectrum = parse_spectrum("log:0.01:1", 5);
  EXPECT_NEAR(spectrum[2], 0.1, 1e-12);
  const at::Tensor values = std::get<0>(at::linalg_eigh(rotated_diagonal(spectrum, 3)));
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_NEAR(values[i].item<double>(), spectrum[static_cast<std::size_t>(i)], 1e-12);
  EXPECT_FALSE(at::allclose(rotated_diagonal(spectrum, 3), rotated_diagonal(spectrum, 4)));
}

TEST(Matrix, ParsesSpectraAndRefusesOthers) {
  EXPECT_EQ(parse_spectrum("3,1,0.5", 99), (std::vector<double>{3, 1, 0.5}));
  for (const char* wrong : {"", "1,x", "1,-2", "log:1", "log:0:1", "log:a:b", "1,inf"}) {
    EXPECT_THROW(parse_spectrum(wrong, 3), Error) << wrong;
  }
}

TEST(Matrix, SymmetricRootSquaresToTheMatrix) {
  const at::Tensor A = rotated_diagonal({4, 1, 0}, 1), root = symmetric_root(A);
  EXPECT_LT((at::matmul(root, root) - A).abs().max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace covnoise::theory
