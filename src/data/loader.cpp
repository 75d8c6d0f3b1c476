#include "covnoise/data/loader.h"

#include "covnoise/ops/philox.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace covnoise {
namespace {

constexpr std::int64_t kPadding = 4;

/// Row and column of the crop's corner in the padded image, then the flip. Without augmentation: the image itself.
struct Crop {
  std::int64_t row = kPadding;
  std::int64_t column = kPadding;
  bool flip = false;
};

Crop draw_crop(const RandomStream& stream, std::int64_t example) {
  const Philox4 words = stream.words(static_cast<std::uint64_t>(example));
  const auto offset = [](std::uint32_t word) {  // uniform in 0 .. 2 * kPadding
    return static_cast<std::int64_t>((std::uint64_t{word} * (2 * kPadding + 1)) >> 32);
  };
  return {offset(words.x[0]), offset(words.x[1]), (words.x[2] >> 31) != 0};
}

/// (pixel / 255 - mean) / std as one multiplication and one addition.
template <typename T>
struct Affine {
  T scale;
  T shift;
  T operator()(std::uint8_t pixel) const { return static_cast<T>(pixel) * scale + shift; }
};

template <typename T>
std::vector<Affine<T>> make_affines(const LoaderOptions& options) {
  std::vector<Affine<T>> affines;
  for (std::size_t c = 0; c < options.mean.size(); ++c) {
    affines.push_back(
        {static_cast<T>(1.0 / (255.0 * options.std[c])), static_cast<T>(-options.mean[c] / options.std[c])});
  }
  return affines;
}

/// One row of `width` pixels moved by the crop's column: out[x] = in[x + column - padding], black outside, then
/// mirrored.
template <typename T>
void load_row(const std::uint8_t* in, std::int64_t width, const Crop& crop, Affine<T> affine, T* out) {
  const std::int64_t move = crop.column - kPadding;
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
    const std::int64_t row = y + crop.row - kPadding;
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

void check(const Dataset& dataset, const LoaderOptions& options) {
  const at::Tensor& images = dataset.images;
  TORCH_CHECK(images.dim() == 4 && images.scalar_type() == at::kByte && images.device().is_cpu(),
              "images must be uint8 [N, C, H, W] on the CPU, got ", images.toString(), " ", images.sizes());
  TORCH_CHECK(dataset.labels.dim() == 1 && dataset.labels.scalar_type() == at::kLong &&
                  dataset.labels.size(0) == images.size(0),
              "labels must be int64 [", images.size(0), "], got ", dataset.labels.toString(), " ",
              dataset.labels.sizes());
  const auto channels = static_cast<std::size_t>(images.size(1));
  TORCH_CHECK(options.mean.size() == channels && options.std.size() == channels, "images have ", channels,
              " channels, but mean has ", options.mean.size(), " values and std has ", options.std.size());
  for (const double deviation : options.std) TORCH_CHECK(deviation > 0, "std must be positive, got ", deviation);
  TORCH_CHECK(options.dtype == at::kFloat || options.dtype == at::kDouble, "images are loaded as float or double, not ",
              options.dtype);
}

}  // namespace

Loader::Loader(Dataset dataset, LoaderOptions options) : dataset_(std::move(dataset)), options_(std::move(options)) {
  check(dataset_, options_);
  dataset_.images = dataset_.images.contiguous();
  dataset_.labels = dataset_.labels.contiguous();
}

at::Tensor Loader::order(std::int64_t epoch) const {
  const RandomStream stream{options_.seed, Purpose::kOrder, static_cast<std::uint32_t>(epoch)};
  at::Tensor order = at::empty({size()}, at::kLong);
  auto* values = order.data_ptr<std::int64_t>();
  std::iota(values, values + size(), std::int64_t{0});
  for (std::int64_t i = size() - 1; i > 0; --i) {  // Fisher and Yates
    std::swap(values[i], values[stream.below(static_cast<std::uint32_t>(i + 1), static_cast<std::uint64_t>(i))]);
  }
  return order;
}

at::Tensor Loader::images(const at::Tensor& indices, std::int64_t epoch) const {
  return load(indices, options_.augment, epoch);
}

at::Tensor Loader::plain_images(const at::Tensor& indices) const { return load(indices, false, 0); }

at::Tensor Loader::labels(const at::Tensor& indices) const { return dataset_.labels.index_select(0, indices); }

at::Tensor Loader::load(const at::Tensor& indices, bool augment, std::int64_t epoch) const {
  const at::Tensor examples = indices.contiguous();
  check_indices(examples, size());
  const std::int64_t channels = dataset_.images.size(1), height = dataset_.images.size(2),
                     width = dataset_.images.size(3), plane = height * width;
  at::Tensor out = at::empty({examples.size(0), channels, height, width}, options_.dtype);
  const RandomStream stream{options_.seed, Purpose::kAugmentation, static_cast<std::uint32_t>(epoch)};
  const auto* index = examples.data_ptr<std::int64_t>();
  const auto* pixels = dataset_.images.data_ptr<std::uint8_t>();
  AT_DISPATCH_FLOATING_TYPES(options_.dtype, "covnoise::Loader", [&] {
    const std::vector<Affine<scalar_t>> affines = make_affines<scalar_t>(options_);
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

}  // namespace covnoise
