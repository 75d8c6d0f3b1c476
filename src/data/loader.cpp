#include "covnoise/data/loader.h"

#include "covnoise/data/internal/permutation.h"
#include "covnoise/ops/load_images.h"
#include "data/image_stream.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <numeric>
#include <utility>

namespace covnoise {
namespace {

void check(const Dataset& dataset, const LoaderOptions& options) {
  const at::Tensor& images = dataset.images;
  TORCH_CHECK(dataset.reader || (images.dim() == 4 && images.scalar_type() == at::kByte),
              "images must be uint8 [N, C, H, W], got ", images.toString(), " ", images.sizes());
  const auto sizes = dataset.sizes();
  TORCH_CHECK(
      dataset.labels.dim() == 1 && dataset.labels.scalar_type() == at::kLong && dataset.labels.size(0) == sizes[0],
      "labels must be int64 [", sizes[0], "], got ", dataset.labels.toString(), " ", dataset.labels.sizes());
  const auto channels = static_cast<std::size_t>(sizes[1]);
  TORCH_CHECK(options.mean.size() == channels && options.std.size() == channels, "images have ", channels,
              " channels, but mean has ", options.mean.size(), " values and std has ", options.std.size());
  for (const double deviation : options.std) TORCH_CHECK(deviation > 0, "std must be positive, got ", deviation);
  const bool low = options.dtype == at::kBFloat16 && options.device.is_cuda();
  TORCH_CHECK(options.dtype == at::kFloat || options.dtype == at::kDouble || low,
              "images are loaded as float, double or, on a GPU, bfloat16, not ", options.dtype);
}

}  // namespace

Loader::Loader(Dataset dataset, LoaderOptions options) : dataset_(std::move(dataset)), options_(std::move(options)) {
  check(dataset_, options_);
  if (dataset_.reader) {
    stream_ = std::make_shared<ImageStream>(dataset_.reader, at::get_num_threads());
  } else {
    dataset_.images = dataset_.images.contiguous().to(options_.device);
  }
  dataset_.labels = dataset_.labels.contiguous().to(options_.device);
}

at::Tensor permutation(const RandomStream& stream, std::int64_t count) {
  at::Tensor order = at::empty({count}, at::kLong);
  auto* values = order.data_ptr<std::int64_t>();
  std::iota(values, values + count, std::int64_t{0});
  for (std::int64_t i = count - 1; i > 0; --i) {  // Fisher and Yates
    std::swap(values[i], values[stream.below(static_cast<std::uint32_t>(i + 1), static_cast<std::uint64_t>(i))]);
  }
  return order;
}

at::Tensor epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  return permutation({seed, Purpose::kOrder, static_cast<std::uint32_t>(epoch)}, size);
}

at::Tensor Loader::order(std::int64_t epoch) const {
  return epoch_order(size(), options_.seed, epoch).to(stream_ ? at::Device(at::kCPU) : options_.device);
}

void Loader::prefetch(const at::Tensor& indices) const {
  if (stream_) stream_->prefetch(indices.cpu().contiguous());
}

at::Tensor Loader::images(const at::Tensor& indices, std::int64_t epoch) const {
  return load(indices, options_.augment, epoch);
}

at::Tensor Loader::plain_images(const at::Tensor& indices) const { return load(indices, false, 0); }

at::Tensor Loader::labels(const at::Tensor& indices) const {
  return dataset_.labels.index_select(0, indices.to(options_.device));
}

at::Tensor Loader::load(const at::Tensor& indices, bool augment, std::int64_t epoch) const {
  ImageTransform transform{augment, options_.mean, options_.std, options_.seed, options_.dtype};
  if (stream_) {
    const at::Tensor examples = indices.cpu().contiguous();
    at::Tensor pixels = stream_->take(examples);
    if (augment) pixels = augment_images(pixels, examples, options_.seed, epoch);
    transform.augment = false;
    if (options_.device.is_cuda()) pixels = pixels.pin_memory();  // so that the copy need not wait for earlier steps
    return load_images(pixels.to(options_.device, /*non_blocking=*/true),
                       at::arange(pixels.size(0), at::TensorOptions(options_.device).dtype(at::kLong)), transform,
                       epoch);
  }
  return load_images(dataset_.images, indices.to(options_.device), transform, epoch);
}

}  // namespace covnoise
