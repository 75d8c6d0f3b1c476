#include "covnoise/data/dataset.h"

#include <ATen/Functions.h>

namespace covnoise {
namespace {

/// Some of the images of another reader.
class SelectedImages final : public ImageReader {
 public:
  SelectedImages(std::shared_ptr<const ImageReader> all, const at::Tensor& indices)
      : all_(std::move(all)), indices_(indices.cpu().contiguous()) {}

  std::vector<std::int64_t> sizes() const override {
    auto sizes = all_->sizes();
    sizes[0] = indices_.size(0);
    return sizes;
  }
  void read(std::int64_t index, std::uint8_t* pixels) const override {
    TORCH_CHECK(0 <= index && index < indices_.size(0), "example ", index, " of a data set of ", indices_.size(0));
    all_->read(indices_.data_ptr<std::int64_t>()[index], pixels);
  }

 private:
  std::shared_ptr<const ImageReader> all_;
  at::Tensor indices_;
};

}  // namespace

std::vector<std::int64_t> Dataset::sizes() const { return reader ? reader->sizes() : images.sizes().vec(); }

at::Tensor Dataset::image(std::int64_t index) const {
  if (!reader) return images[index];
  const auto all = sizes();
  at::Tensor pixels = at::empty({all[1], all[2], all[3]}, at::kByte);
  reader->read(index, pixels.data_ptr<std::uint8_t>());
  return pixels;
}

Dataset Dataset::slice(std::int64_t first, std::int64_t count) const {
  if (reader) return select(at::arange(first, first + count));
  return {images.narrow(0, first, count), labels.narrow(0, first, count)};
}

Dataset Dataset::select(const at::Tensor& indices) const {
  const at::Tensor chosen = labels.index_select(0, indices);
  if (reader) return {{}, chosen, std::make_shared<SelectedImages>(reader, indices)};
  return {images.index_select(0, indices), chosen};
}

}  // namespace covnoise
