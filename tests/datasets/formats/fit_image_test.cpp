#include "datasets/formats/fit_image.h"

#include "datasets/files.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace covnoise::testing {
namespace {

using ::testing::HasSubstr;

Image random_image(std::int64_t width, std::int64_t height, std::int64_t channels) {
  at::manual_seed(1);
  const at::Tensor pixels = at::randint(0, 256, {width * height * channels}, at::kByte);
  const auto* first = pixels.data_ptr<std::uint8_t>();
  return {width, height, channels, {first, first + pixels.numel()}};
}

at::Tensor tensor_of(const Image& image) {  // [1, C, H, W]
  return at::tensor(at::ArrayRef<std::uint8_t>(image.pixels), at::kByte)
      .view({1, image.height, image.width, image.channels})
      .permute({0, 3, 1, 2});
}

/// Against PyTorch's antialiased bilinear interpolation, whose result is rounded here.
TEST(FitImage, ResizesAsPyTorchDoes) {
  const std::vector<std::array<std::int64_t, 3>> cases = {{40, 30, 7}, {30, 40, 64}, {17, 17, 16}, {100, 9, 5}};
  for (const auto& [width, height, side] : cases) {
    for (const std::int64_t channels : {1, 3}) {
      const Image image = random_image(width, height, channels), small = fit_image(image, {side, 0});
      EXPECT_EQ(std::min(small.width, small.height), side);
      EXPECT_EQ(small.width, width * side / std::min(width, height));
      const at::Tensor expected = at::_upsample_bilinear2d_aa(tensor_of(image).to(at::kFloat).contiguous(),
                                                              {small.height, small.width}, false, {}, {});
      EXPECT_LE((tensor_of(small).to(at::kFloat) - expected).abs().max().item<double>(), 0.51);
    }
  }
}

TEST(FitImage, CutsTheCentre) {
  const Image image = random_image(9, 6, 3), square = fit_image(image, {0, 4});
  EXPECT_TRUE(tensor_of(square).equal(tensor_of(image).narrow(2, 1, 4).narrow(3, 2, 4)));
  EXPECT_TRUE(tensor_of(fit_image(image, {})).equal(tensor_of(image)));
  EXPECT_THAT(error_of([&] { fit_image(image, {0, 7}); }), HasSubstr("9 x 6 pixels (width x height) are smaller"));
}

}  // namespace
}  // namespace covnoise::testing
