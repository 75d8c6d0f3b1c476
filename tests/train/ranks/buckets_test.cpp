#include "train/ranks/buckets.h"

#include "covnoise/nn/model_zoo.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

std::string layer_of(const FlatParameters::Entry& entry) { return entry.name.substr(0, entry.name.rfind('.')); }

TEST(Buckets, AreRunsOfWholeLayersThatMakeUpTheBuffer) {
  ModelOptions options;
  options.input = {3, 32, 32};
  options.classes = 10;
  const auto model = make_model("resnet20", options);
  const FlatParameters parameters(*model);
  const auto buckets = cut_in_buckets(parameters, {4, 1});
  EXPECT_EQ(buckets.size(), 4u);
  std::size_t entries = 0;
  std::int64_t elements = 0;
  for (const auto& bucket : buckets) {
    EXPECT_EQ(bucket.first_entry(), entries);
    EXPECT_EQ(bucket.first_element(), elements);
    if (entries > 0) {
      EXPECT_NE(layer_of(bucket.entries()[0]), layer_of(parameters.entries()[entries - 1]));
    }
    entries += bucket.entries().size();
    elements += bucket.size();
  }
  EXPECT_EQ(entries, parameters.entries().size());
  EXPECT_EQ(elements, parameters.size());
}

TEST(Buckets, AreNotSmallerThanWhatIsWorthAMessage) {
  ModelOptions options;
  options.input = {1, 28, 28};
  options.classes = 10;
  const auto model = make_model("lenet", options);
  const FlatParameters parameters(*model);
  const auto bytes = static_cast<std::int64_t>(parameters.values().nbytes());
  EXPECT_EQ(cut_in_buckets(parameters, {4, bytes}).size(), 1u);
  EXPECT_EQ(cut_in_buckets(parameters, {1, 1}).size(), 1u);
  EXPECT_LE(cut_in_buckets(parameters, {4, bytes / 2}).size(), 2u);
}

}  // namespace
}  // namespace covnoise
