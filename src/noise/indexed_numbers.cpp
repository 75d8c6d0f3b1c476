#include "covnoise/noise/indexed_numbers.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace covnoise {
namespace {

/// The smallest power of two that is at least n: a batch that comes in many micro-batches leaves few tensors behind.
std::int64_t power_of_two(std::int64_t n) {
  std::int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

void IndexedNumbers::start(const RandomStream& stream) {
  stream_ = stream;
  for (const auto& numbers : kept_) fill_(numbers, stream_);
}

at::Tensor IndexedNumbers::rows(std::int64_t begin, std::int64_t end, std::int64_t columns,
                                const at::TensorOptions& options) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const at::Tensor& numbers) {
    return numbers.size(0) >= end && numbers.size(1) == columns && numbers.scalar_type() == options.dtype() &&
           numbers.device() == options.device();
  });
  if (found != kept_.end()) return found->slice(0, begin, end);
  kept_.push_back(at::empty({power_of_two(end), columns}, options));
  fill_(kept_.back(), stream_);
  return kept_.back().slice(0, begin, end);
}

}  // namespace covnoise
