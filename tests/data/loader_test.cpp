#include "covnoise/data/loader.h"

#include "covnoise/core/threads.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

namespace covnoise {
namespace {

constexpr std::int64_t kSide =
    15;  // pixel (y, x) of a map holds 1 + 15 y + x, so that an output pixel tells its source

Dataset coordinate_maps(std::int64_t examples) {
  const at::Tensor map = at::arange(1, kSide * kSide + 1, at::kByte).view({1, 1, kSide, kSide});
  return {map.repeat({examples, 1, 1, 1}), at::zeros({examples}, at::kLong)};
}

Dataset random_images(std::int64_t examples, std::int64_t channels, std::int64_t height, std::int64_t width) {
  at::manual_seed(3);
  return {at::randint(0, 256, {examples, channels, height, width}, at::kByte), at::arange(examples).remainder(10)};
}

LoaderOptions raw_pixels() {  // normalisation that returns the pixel value
  LoaderOptions options;
  options.augment = true;
  options.mean = {0.0};
  options.std = {1.0 / 255.0};
  options.dtype = at::kDouble;
  return options;
}

struct Crop {
  std::int64_t row, column;  // 0 .. 8
  bool flip;
};

/// The crop that produced `image` [15, 15] from a coordinate map: the centre is never padding.
Crop decode(const at::Tensor& image) {
  const auto pixels = image.accessor<double, 2>();
  const auto centre = static_cast<std::int64_t>(pixels[7][7] + 0.5) - 1;
  return {centre / kSide - 3, centre % kSide - 3, pixels[7][8] < pixels[7][7]};
}

at::Tensor brute_force(const at::Tensor& image, const Crop& crop) {  // uint8 [C, H, W]
  const at::Tensor padded = at::constant_pad_nd(image, {4, 4, 4, 4}, 0);
  const at::Tensor cropped = padded.narrow(1, crop.row, image.size(1)).narrow(2, crop.column, image.size(2));
  return crop.flip ? cropped.flip({2}) : cropped;
}

TEST(Loader, OrderIsAPermutationThatDependsOnSeedAndEpoch) {
  LoaderOptions options = raw_pixels();
  const Loader loader(coordinate_maps(1000), options);
  const at::Tensor first = loader.order(0);
  EXPECT_TRUE(at::equal(std::get<0>(first.sort()), at::arange(1000)));
  EXPECT_TRUE(at::equal(first, loader.order(0)));
  EXPECT_FALSE(at::equal(first, loader.order(1)));
  options.seed = 1;
  EXPECT_FALSE(at::equal(first, Loader(coordinate_maps(1000), options).order(0)));
}

TEST(Loader, OrderIsUniformOverPermutations) {
  constexpr int kDraws = 6000;  // of the 6 permutations of 3 examples: 1000 +- 29 each
  const Loader loader(coordinate_maps(3), raw_pixels());
  std::array<int, 9> counts{};
  for (int epoch = 0; epoch < kDraws; ++epoch) {
    const at::Tensor order = loader.order(epoch);
    ++counts[static_cast<std::size_t>(3 * order[0].item<int>() + order[1].item<int>())];
  }
  for (const std::size_t pair : {1, 2, 3, 5, 6, 7}) EXPECT_NEAR(counts[pair], kDraws / 6, 5 * 29) << pair;
}

TEST(Loader, AugmentationEqualsPadCropFlip) {
  const Dataset maps = coordinate_maps(300);
  const at::Tensor images = Loader(maps, raw_pixels()).images(at::arange(300), 7).squeeze(1);
  for (std::int64_t i = 0; i < 300; ++i) {
    const at::Tensor expected = brute_force(maps.images[i], decode(images[i]))[0].to(at::kDouble);
    EXPECT_TRUE(at::allclose(images[i], expected, 0, 1e-9)) << i;
  }
}

TEST(Loader, EveryCropAndFlipIsEquallyLikely) {
  constexpr int kCells = 9 * 9 * 2, kPerCell = 100;
  const Loader loader(coordinate_maps(kCells * kPerCell), raw_pixels());
  const at::Tensor images = loader.images(at::arange(kCells * kPerCell), 0).squeeze(1);
  std::array<int, kCells> counts{};
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const Crop crop = decode(images[i]);
    ++counts.at(static_cast<std::size_t>((crop.row * 9 + crop.column) * 2 + (crop.flip ? 1 : 0)));
  }
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - kPerCell) * (count - kPerCell) / double{kPerCell};
  EXPECT_NEAR(chi_squared, kCells - 1, 5 * std::sqrt(2.0 * kCells));
}

TEST(Loader, NormalisesEachChannel) {
  const Dataset dataset = random_images(5, 3, 6, 9);
  LoaderOptions options;
  options.mean = {0.1, 0.5, 0.9};
  options.std = {0.2, 0.3, 0.4};
  const at::Tensor mean = at::tensor(options.mean, at::kDouble).view({3, 1, 1});
  const at::Tensor deviation = at::tensor(options.std, at::kDouble).view({3, 1, 1});
  const at::Tensor indices = at::tensor({4, 0, 4}, at::kLong);
  const at::Tensor expected = (dataset.images.index_select(0, indices).to(at::kDouble) / 255 - mean) / deviation;
  const at::Tensor single = Loader(dataset, options).plain_images(indices);
  EXPECT_EQ(single.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(single.to(at::kDouble), expected, 1e-6, 1e-6));
  options.dtype = at::kDouble;
  EXPECT_TRUE(at::allclose(Loader(dataset, options).images(indices, 3), expected, 1e-12, 1e-12));
}

TEST(Loader, PaddingIsABlackPixelNormalised) {
  LoaderOptions options = raw_pixels();
  options.mean = {0.25};
  options.std = {0.5};
  const Dataset white{at::full({200, 1, 8, 8}, 255, at::kByte), at::zeros({200}, at::kLong)};
  const at::Tensor images = Loader(white, options).images(at::arange(200), 0);
  const at::Tensor padded = (images + 0.5).abs() < 1e-12;  // (0 - 0.25) / 0.5
  const at::Tensor inside = (images - 1.5).abs() < 1e-12;
  EXPECT_TRUE(padded.logical_or(inside).all().item<bool>());
  EXPECT_GT(padded.sum().item<std::int64_t>(), 0);
}

TEST(Loader, ImagesAreAPureFunctionOfSeedEpochAndExample) {
  LoaderOptions options = raw_pixels();
  const Dataset dataset = random_images(64, 1, 12, 12);
  const Loader loader(dataset, options);
  const at::Tensor whole = loader.images(at::arange(64), 2);
  const at::Tensor order = loader.order(5);
  EXPECT_TRUE(at::equal(loader.images(order, 2), whole.index_select(0, order)));
  EXPECT_TRUE(at::equal(loader.images(at::arange(60, 63), 2), whole.narrow(0, 60, 3)));
  EXPECT_FALSE(at::equal(loader.images(at::arange(64), 3), whole));
  options.seed = 9;
  EXPECT_FALSE(at::equal(Loader(dataset, options).images(at::arange(64), 2), whole));
}

TEST(Loader, ThreadsDoNotMatter) {
  LoaderOptions options;
  options.augment = true;
  options.mean = {0.4, 0.5, 0.6};
  options.std = {0.2, 0.3, 0.4};
  const Loader loader(random_images(500, 3, 32, 32), options);
  set_threads(1);
  const at::Tensor alone = loader.images(loader.order(1), 1);
  set_threads(2);
  const at::Tensor together = loader.images(loader.order(1), 1);
  set_threads(0);
  EXPECT_TRUE(at::equal(alone, together));
}

TEST(Loader, PicksLabels) {
  const Loader loader(random_images(30, 1, 4, 4), raw_pixels());
  EXPECT_TRUE(at::equal(loader.labels(at::tensor({29, 3, 13}, at::kLong)), at::tensor({9, 3, 3}, at::kLong)));
}

TEST(Loader, EmptyBatchIsEmpty) {
  const Loader loader(random_images(3, 1, 4, 5), raw_pixels());
  EXPECT_EQ(loader.images(at::empty({0}, at::kLong), 0).sizes(), (std::vector<std::int64_t>{0, 1, 4, 5}));
}

TEST(Loader, RefusesMistakes) {
  const Dataset dataset = random_images(3, 1, 4, 4);
  const Loader loader(dataset, raw_pixels());
  EXPECT_THROW(loader.images(at::tensor({0, 3}, at::kLong), 0), c10::Error);
  EXPECT_THROW(loader.plain_images(at::tensor({-1}, at::kLong)), c10::Error);
  EXPECT_THROW(loader.images(at::zeros({2}), 0), c10::Error);
  LoaderOptions options = raw_pixels();
  options.std = {0.0};
  EXPECT_THROW(Loader(dataset, options), c10::Error);
  options.std = {1.0, 1.0};
  EXPECT_THROW(Loader(dataset, options), c10::Error);
  EXPECT_THROW(Loader({dataset.images.to(at::kFloat), dataset.labels}, raw_pixels()), c10::Error);
}

}  // namespace
}  // namespace covnoise
