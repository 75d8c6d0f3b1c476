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

}  // namespace

std::string data_digest(const DataSource& source) {
  return data_digest({source.train.images, source.train.labels, source.test.images, source.test.labels});
}

std::string data_digest(const std::vector<at::Tensor>& tensors) {
  std::string all;
  for (const auto& tensor : tensors) {
    if (tensor.defined()) all += described(tensor);
  }
  return sha256_hex(all);
}

}  // namespace covnoise
