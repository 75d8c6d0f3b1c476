#include "covnoise/ops/load_images.h"

#include "covnoise/ops/philox.h"
#include "ops/image_crop.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>

namespace covnoise {
namespace {

/// (pixel / 255 - mean) / std as one multiplication and one addition.
template <typename T>
struct Affine {
  T scale;
  T shift;
  T operator()(std::uint8_t pixel) const { return static_cast<T>(pixel) * scale + shift; }
};

template <typename T>
std::vector<Affine<T>> make_affines(at::ArrayRef<double> mean, at::ArrayRef<double> std) {
  std::vector<Affine<T>> affines;
  for (std::size_t c = 0; c < mean.size(); ++c)
    affines.push_back({static_cast<T>(1.0 / (255.0 * std[c])), static_cast<T>(-mean[c] / std[c])});
  return affines;
}

/// One row of `width` pixels shifted by the crop's column: out[x] = in[x + column - padding], black outside, then
/// flipped.
template <typename T>
void load_row(const std::uint8_t* in, std::int64_t width, const Crop& crop, Affine<T> affine, T* out) {
  const std::int64_t move = crop.column - kCropPadding;
  const std::int64_t begin = std::clamp<std::int64_t>(-move, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(width - move, begin, width);
  const T black = affine(0);
  if (crop.flip) {
    T* mirrored = out + width - 1;
    for (std::int64_t x = 0; x < begin; ++x) mirrored[-x] = black;
    for (std::int64_t x = begin; x < end; ++x) mirrored[-x] = affine(in[x + move]);
    for (std::int64_t x = end; x < width; ++x) mirrored[-x] = black;
  } else {
    std::fill(out, out + begin, black);
    for (std::int64_t x = begin; x < end; ++x) out[x] = affine(in[x + move]);
    std::fill(out + end, out + width, black);
  }
}

/// One channel [H, W].
template <typename T>
void load_plane(const std::uint8_t* in, std::int64_t height, std::int64_t width, const Crop& crop, Affine<T> affine,
                T* out) {
  for (std::int64_t y = 0; y < height; ++y, out += width) {
    const std::int64_t row = y + crop.row - kCropPadding;
    if (row < 0 || row >= height) {
      std::fill(out, out + width, affine(0));
    } else {
      load_row(in + row * width, width, crop, affine, out);
    }
  }
}

void check_indices(const at::Tensor& indices, std::int64_t size) {
  TORCH_CHECK(indices.dim() == 1 && indices.scalar_type() == at::kLong && indices.device().is_cpu(),
              "indices must be an int64 vector on the CPU, got ", indices.toString(), " ", indices.sizes());
  const auto* begin = indices.data_ptr<std::int64_t>();
  for (const auto* index = begin; index != begin + indices.numel(); ++index) {
    TORCH_CHECK(0 <= *index && *index < size, "example ", *index, " of a data set of ", size);
  }
}

at::Tensor load_cpu(const at::Tensor& images, const at::Tensor& indices, at::ArrayRef<double> mean,
                    at::ArrayRef<double> std, bool augment, std::int64_t seed, std::int64_t epoch,
                    at::ScalarType type) {
  const at::Tensor examples = indices.contiguous();
  check_indices(examples, images.size(0));
  const std::int64_t channels = images.size(1), height = images.size(2), width = images.size(3), plane = height * width;
  at::Tensor out = at::empty({examples.size(0), channels, height, width}, images.options().dtype(type));
  const RandomStream stream{static_cast<std::uint64_t>(seed), Purpose::kAugmentation,
                            static_cast<std::uint32_t>(epoch)};
  const auto* index = examples.data_ptr<std::int64_t>();
  const auto* pixels = images.data_ptr<std::uint8_t>();
  AT_DISPATCH_FLOATING_TYPES(type, "covnoise::load_images", [&] {
    const std::vector<Affine<scalar_t>> affines = make_affines<scalar_t>(mean, std);
    auto* target = out.data_ptr<scalar_t>();
    at::parallel_for(0, examples.size(0), /*grain_size=*/16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t m = begin; m < end; ++m) {
        const Crop crop = augment ? draw_crop(stream, index[m]) : Crop{};
        for (std::int64_t c = 0; c < channels; ++c) {
          load_plane(pixels + (index[m] * channels + c) * plane, height, width, crop,
                     affines[static_cast<std::size_t>(c)], target + (m * channels + c) * plane);
        }
      }
    });
  });
  return out;
}

}  // namespace

at::Tensor load_images(const at::Tensor& images, const at::Tensor& indices, const ImageTransform& transform,
                       std::int64_t epoch) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::load_images", "").typed<decltype(load_cpu)>();
  return op.call(images, indices, transform.mean, transform.std, transform.augment,
                 static_cast<std::int64_t>(transform.seed), epoch, transform.type);
}

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "load_images(Tensor images, Tensor indices, float[] mean, float[] std, bool augment, int seed, int epoch, "
      "ScalarType type) -> Tensor");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("load_images", load_cpu); }

}  // namespace covnoise
