#include "covnoise/core/internal/csv.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

TEST(CsvRows, AreReadAsTheyWereWritten) {
  const testing::TemporaryFolder folder;
  CsvTable table({"a", "b", "c"});
  table.add_row({"[[0.25,4096,0.8]]", "", "\"said\", twice"});
  table.add_row({"two\nlines", "1e-3", "\"\""});
  table.write(folder.path() / "t.csv");
  const auto rows = read_csv_rows(folder.path() / "t.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0], ElementsAre(Pair("a", "[[0.25,4096,0.8]]"), Pair("b", ""), Pair("c", "\"said\", twice")));
  EXPECT_THAT(rows[1], ElementsAre(Pair("a", "two\nlines"), Pair("b", "1e-3"), Pair("c", "\"\"")));
}

TEST(CsvRows, OfWrongLengthAreRefused) {
  const testing::TemporaryFolder folder;
  write_file_synced(folder.path() / "t.csv", "a,b\n1,2\n3\n");
  EXPECT_THAT([&] { read_csv_rows(folder.path() / "t.csv"); },
              ThrowsMessage<Error>(HasSubstr("row 3: 1 cells, the header has 2")));
  write_file_synced(folder.path() / "t.csv", "");
  EXPECT_TRUE(read_csv_rows(folder.path() / "t.csv").empty());
}

TEST(CsvRows, ThatAreAmbiguousAreRefused) {
  const testing::TemporaryFolder folder;
  write_file_synced(folder.path() / "t.csv", "a,a\n1,2\n");
  EXPECT_THAT([&] { read_csv_rows(folder.path() / "t.csv"); },
              ThrowsMessage<Error>(HasSubstr("t.csv, row 1: two columns have the same name")));
  write_file_synced(folder.path() / "t.csv", "a,b\n1,\"2\n");
  EXPECT_THAT([&] { read_csv_rows(folder.path() / "t.csv"); },
              ThrowsMessage<Error>(HasSubstr("t.csv, row 2: the quotes are not closed")));
}

TEST(CsvMatrix, ANumberIsTheWholeWord) {
  const testing::TemporaryFolder folder;
  write_file_synced(folder.path() / "m.csv", std::string("1 2\n3 4\0x\n", 10));
  EXPECT_THAT([&] { read_csv_matrix(folder.path() / "m.csv"); },
              ThrowsMessage<Error>(HasSubstr("m.csv, line 2: not a number")));
}

}  // namespace
}  // namespace covnoise
