#include "data/image_stream.h"

#include "covnoise/data/loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace covnoise {
namespace {

/// Images of a tensor, one by one; image 13 cannot be read.
class TensorReader final : public ImageReader {
 public:
  explicit TensorReader(at::Tensor images) : images_(std::move(images)) {}
  std::vector<std::int64_t> sizes() const override { return images_.sizes().vec(); }
  void read(std::int64_t index, std::uint8_t* pixels) const override {
    ++reads;
    if (index == 13) throw std::runtime_error("bad luck");
    const at::Tensor image = images_[index];
    std::copy_n(image.data_ptr<std::uint8_t>(), image.numel(), pixels);
  }
  mutable std::atomic<int> reads{0};

 private:
  at::Tensor images_;
};

at::Tensor some_images() {
  at::manual_seed(3);
  return at::randint(0, 256, {50, 3, 12, 10}, at::kByte);
}

TEST(ImageStream, TakesWhatWasAskedForInAnyOrder) {
  const at::Tensor images = some_images();
  ImageStream stream(std::make_shared<TensorReader>(images), 3);
  stream.prefetch(at::arange(20, 30));
  for (const auto& indices : {at::arange(25, 45), at::tensor({4, 2, 4}, at::kLong), at::arange(0, 3)}) {
    stream.prefetch(at::arange(30, 35));  // of no use
    EXPECT_TRUE(stream.take(indices).equal(images.index_select(0, indices)));
  }
}

TEST(ImageStream, PrefetchedImagesAreReadOnce) {
  const auto reader = std::make_shared<TensorReader>(some_images());
  ImageStream stream(reader, 1);
  stream.prefetch(at::arange(5));
  stream.take(at::arange(5));
  EXPECT_EQ(reader->reads, 5);
}

TEST(ImageStream, ThrowsWhereABadImageIsTaken) {
  ImageStream stream(std::make_shared<TensorReader>(some_images()), 2);
  EXPECT_NO_THROW(stream.prefetch(at::arange(10, 15)));
  EXPECT_THROW(stream.take(at::arange(10, 15)), std::runtime_error);
  EXPECT_NO_THROW(stream.take(at::arange(3)));
}

/// The same bits as from memory: order, augmentation and normalisation.
TEST(Loader, StreamedImagesAreThoseInMemory) {
  const at::Tensor images = some_images(), labels = at::arange(50).remainder(10);
  LoaderOptions options;
  options.augment = true;
  options.mean = {0.1, 0.2, 0.3};
  options.std = {0.5, 0.6, 0.7};
  options.seed = 5;
  const Loader kept({images, labels}, options), streamed({{}, labels, std::make_shared<TensorReader>(images)}, options);
  EXPECT_EQ(streamed.size(), 50);
  EXPECT_TRUE(streamed.order(3).equal(kept.order(3)));
  const at::Tensor indices = at::cat({at::arange(14, 50), at::arange(0, 13)});
  streamed.prefetch(indices.narrow(0, 0, 20));
  EXPECT_TRUE(streamed.images(indices, 2).equal(kept.images(indices, 2)));
  EXPECT_TRUE(streamed.plain_images(indices).equal(kept.plain_images(indices)));
  EXPECT_TRUE(streamed.labels(indices).equal(kept.labels(indices)));
}

}  // namespace
}  // namespace covnoise
