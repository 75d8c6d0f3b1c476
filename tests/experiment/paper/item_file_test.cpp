#include "experiment/paper/item_file.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace covnoise::paper {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Json good_item() {
  const Json table =
      Table{"a - b", {"network", "difference", "p", "n", "paper"}, {{"mlp", "1", "2", "3", "-"}}}.to_json();
  const Json sample{{"mean", 0.5}, {"deviation", nullptr}, {"seeds", 3}};
  const Json cell{{"row", "mlp"},        {"regime", "sb"}, {"incomplete", ""}, {"lr", 0.1},
                  {"weight_decay", 0.0}, {"test", sample}, {"train", sample},  {"test_by_seed", {0.5}}};
  return {
      {"quick", false},           {"tables", {table, table}},         {"notes", {"n"}},
      {"figures", Json::array()}, {"folders", {{"recipes", "mine"}}}, {"numbers", {{"cells", Json::array({cell})}}}};
}

Json read(const Json& item) {
  const testing::TemporaryFolder folder;
  write_file_synced(folder / "table2.json", item.dump());
  return read_item(folder / "table2.json");
}

TEST(ItemFile, IsReadAsItWasWritten) {
  EXPECT_EQ(read(good_item()), good_item());
  EXPECT_TRUE(has_comparisons(good_item()));
}

TEST(ItemFile, OfOtherTypesIsRefused) {
  const auto refused = ThrowsMessage<Error>(HasSubstr("table2.json was not written by covnoise paper"));
  for (const char* pointer : {"/tables", "/tables/0/title", "/tables/0/header/0", "/tables/0/rows/0",
                              "/tables/0/rows/0/1", "/notes/0", "/figures", "/quick", "/folders", "/folders/recipes"}) {
    Json bad = good_item();
    bad[Json::json_pointer(pointer)] = 7;
    EXPECT_THAT([&] { read(bad); }, refused) << pointer;
  }
  Json short_row = good_item();
  short_row["tables"][0]["rows"][0].erase(0);
  EXPECT_THAT([&] { read(short_row); }, refused);
}

TEST(ItemFile, WithoutAccuraciesHasNoComparisons) {
  for (const char* pointer : {"/numbers", "/numbers/cells", "/numbers/cells/0/lr", "/numbers/cells/0/test/mean"}) {
    Json other = good_item();
    other[Json::json_pointer(pointer)] = "x";
    EXPECT_FALSE(has_comparisons(other)) << pointer;
  }
  Json none = good_item();
  none["tables"] = Json::array();
  EXPECT_FALSE(has_comparisons(none));
}

}  // namespace
}  // namespace covnoise::paper
