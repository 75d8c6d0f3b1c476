#include "ops/image_crop.h"
#include "ops/portable/portable.h"

#include <ATen/ATen.h>

namespace covnoise::portable {
namespace {

/// For each example the rows [M, H] and columns [M, W] of its pixels in the padded image.
struct Pixels {
  at::Tensor rows, columns;
};

Pixels cropped_pixels(const at::Tensor& indices, std::int64_t height, std::int64_t width, const RandomStream& stream,
                      bool augment) {
  const auto examples = indices.cpu().contiguous();
  auto rows = at::empty({examples.numel(), height}, at::kLong),
       columns = at::empty({examples.numel(), width}, at::kLong);
  const auto* example = examples.data_ptr<std::int64_t>();
  auto *row = rows.data_ptr<std::int64_t>(), *column = columns.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < examples.numel(); ++i) {
    const Crop crop = augment ? draw_crop(stream, example[i]) : Crop{};
    for (std::int64_t y = 0; y < height; ++y) *row++ = crop.row + y;
    for (std::int64_t x = 0; x < width; ++x) *column++ = crop.column + (crop.flip ? width - 1 - x : x);
  }
  return {rows.to(indices.device()), columns.to(indices.device())};
}

}  // namespace

at::Tensor load_images(const at::Tensor& images, const at::Tensor& indices, at::ArrayRef<double> mean,
                       at::ArrayRef<double> std, bool augment, std::int64_t seed, std::int64_t epoch,
                       at::ScalarType type) {
  const RandomStream stream{static_cast<std::uint64_t>(seed), Purpose::kAugmentation,
                            static_cast<std::uint32_t>(epoch)};
  const auto [rows, columns] = cropped_pixels(indices, images.size(2), images.size(3), stream, augment);
  const auto padded =
      at::constant_pad_nd(images.index_select(0, indices), {kCropPadding, kCropPadding, kCropPadding, kCropPadding});
  const auto example = at::arange(indices.numel(), indices.options()).view({-1, 1, 1});
  const auto pixels = padded.permute({0, 2, 3, 1}).index({example, rows.unsqueeze(2), columns.unsqueeze(1)});
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto constants = [&](const at::ArrayRef<double>& values) {
    return at::tensor(values, at::TensorOptions(at::kDouble)).to(images.device());
  };
  const auto deviation = constants(std);
  const auto scale = deviation.mul(255).reciprocal_().to(wide), shift = constants(mean).div_(deviation).neg_().to(wide);
  return pixels.to(wide).mul_(scale).add_(shift).to(type).permute({0, 3, 1, 2});  // channels last
}

}  // namespace covnoise::portable
