// Properties of both embedded data sets.
#include "covnoise/core/threads.h"
#include "covnoise/datasets/glyphs.h"
#include "covnoise/datasets/textures.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

struct Expected {
  const char* name;
  DataSource (*make)();
  std::vector<std::int64_t> shape;  // of one image
  std::uint64_t train_hash, test_hash;
};

std::uint64_t fnv1a(const at::Tensor& bytes) {
  const auto* data = bytes.data_ptr<std::uint8_t>();
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (std::int64_t i = 0; i < bytes.numel(); ++i) hash = (hash ^ data[i]) * 0x100000001B3u;
  return hash;
}

const DataSource& drawn_textures() {
  static const DataSource textures = make_textures();
  return textures;
}

class Embedded : public ::testing::TestWithParam<Expected> {
 protected:
  /// Generated once per data set: the tests only read it.
  static const DataSource& source() {
    static const DataSource glyphs = make_glyphs();
    return GetParam().make == make_glyphs ? glyphs : drawn_textures();
  }
};

TEST_P(Embedded, HasTenBalancedClassesAndStatistics) {
  const DataSource& data = source();
  EXPECT_EQ(data.name, GetParam().name);
  EXPECT_EQ(data.classes.size(), 10u);
  EXPECT_FALSE(data.augment);
  for (const Dataset* split : {&data.train, &data.test}) {
    EXPECT_EQ(split->images.sizes().slice(1).vec(), GetParam().shape);
    EXPECT_EQ(split->images.scalar_type(), at::kByte);
    const at::Tensor counts = split->labels.bincount();
    EXPECT_EQ(counts.numel(), 10);
    EXPECT_TRUE(counts.eq(split->images.size(0) / 10).all().item<bool>());
  }
  const auto channels = static_cast<std::size_t>(GetParam().shape[0]);
  ASSERT_EQ(data.mean.size(), channels);
  EXPECT_NEAR(data.mean[0], data.train.images.select(1, 0).to(at::kDouble).mean().item<double>() / 255, 1e-9);
}

/// Every result depends on the bytes: other checksums mean another data set.
TEST_P(Embedded, IsTheSameOnEveryMachine) {
  EXPECT_EQ(fnv1a(source().train.images), GetParam().train_hash);
  EXPECT_EQ(fnv1a(source().test.images), GetParam().test_hash);
}

TEST_P(Embedded, ThreadsDoNotMatter) {
  set_threads(1);
  const DataSource alone = GetParam().make();
  set_threads(3);
  const DataSource together = GetParam().make();
  set_threads(0);
  EXPECT_TRUE(at::equal(alone.train.images, together.train.images));
  EXPECT_TRUE(at::equal(alone.test.images, together.test.images));
  EXPECT_EQ(alone.std, together.std);
}

TEST_P(Embedded, NoExampleRepeatsItsNeighbours) {
  const auto differ = [](const at::Tensor& a, const at::Tensor& b) {  // in nearly every pixel, because of the noise
    const at::Tensor distance = (a.to(at::kShort) - b.to(at::kShort)).abs().flatten(1).to(at::kFloat).mean(1);
    return distance.min().item<float>() > 2.0f;
  };
  const at::Tensor train = source().train.images.narrow(0, 0, 2000);
  EXPECT_TRUE(differ(train.narrow(0, 0, 1990), train.narrow(0, 10, 1990)));  // the next example of the same class
  EXPECT_TRUE(differ(train, source().test.images.narrow(0, 0, 2000)));
}

INSTANTIATE_TEST_SUITE_P(
    Data, Embedded,
    ::testing::Values(Expected{"glyphs", make_glyphs, {1, 28, 28}, 0x5a79b40f962a8412u, 0x3faf4f40692a64feu},
                      Expected{"textures", make_textures, {3, 32, 32}, 0xe952a7a109eee65du, 0x7a0062c90f377cd2u}),
    [](const auto& info) { return std::string(info.param.name); });

/// A classifier by mean colour (nearest class mean) is hardly better than chance.
TEST(Textures, MeanColourDoesNotTellTheClass) {
  const DataSource& data = drawn_textures();
  const auto colours = [](const Dataset& split) { return split.images.to(at::kFloat).mean({2, 3}); };  // [N, 3]
  const at::Tensor train = colours(data.train), test = colours(data.test);
  std::vector<at::Tensor> centres;
  for (std::int64_t label = 0; label < 10; ++label) {
    centres.push_back(train.index({data.train.labels == label}).mean(0));
  }
  const at::Tensor guess = at::cdist(test, at::stack(centres)).argmin(1);
  EXPECT_LT(guess.eq(data.test.labels).to(at::kFloat).mean().item<double>(), 0.14);
}

}  // namespace
}  // namespace covnoise
