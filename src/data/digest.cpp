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
  return sha256_hex(described(source.train.images) + described(source.train.labels) + described(source.test.images) +
                    described(source.test.labels));
}

}  // namespace covnoise
