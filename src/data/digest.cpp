#include "covnoise/data/internal/digest.h"

#include "covnoise/core/internal/digest.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace covnoise {
namespace {

/// Shape and digest of the elements.
std::string described(const at::Tensor& tensor) {
  const auto bytes = tensor.contiguous().cpu();
  return fmt::format("{} {}\n", fmt::join(bytes.sizes(), "x"),
                     sha256_hex({static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()}));
}

std::string described_images(const Dataset& set) {
  if (!set.reader) return described(set.images);
  std::string digests;
  for (std::int64_t i = 0; i < set.sizes()[0]; ++i) digests += described(set.image(i));
  return digests;
}

}  // namespace

std::string data_digest(const DataSource& source) {
  if (!source.digest.empty()) return source.digest;
  return sha256_hex(described_images(source.train) + described(source.train.labels) + described_images(source.test) +
                    described(source.test.labels));
}

std::string data_digest(const std::vector<at::Tensor>& tensors) {
  std::string all;
  for (const auto& tensor : tensors) {
    if (tensor.defined()) all += described(tensor);
  }
  return sha256_hex(all);
}

}  // namespace covnoise
