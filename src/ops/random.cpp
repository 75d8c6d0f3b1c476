#include "covnoise/ops/random.h"

#include "ops/random_kernel.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr std::int64_t kChunk = 4096;  // a multiple of 4: threads share no block of four words

/// Calls fill(begin, end) over the elements of `out` in parallel, on chunks that do not depend on the threads.
template <class Fill>
void for_chunks(const at::Tensor& out, const Fill& fill) {
  TORCH_CHECK(out.is_contiguous() && out.device().is_cpu(), "random fill needs a contiguous tensor on the CPU");
  const std::int64_t n = out.numel();
  at::parallel_for(0, (n + kChunk - 1) / kChunk, 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) fill(c * kChunk, std::min(n, (c + 1) * kChunk));
  });
}

/// Element i of `out` = f(word i of the stream).
template <class Function>
void fill_words(at::Tensor& out, const RandomStream& stream, const Function& f) {
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "fill_words", [&] {
    auto* data = out.data_ptr<scalar_t>();
    for_chunks(out, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += 4) {
        const Philox4 words = stream.words(static_cast<std::uint64_t>(i) / 4);
        for (std::int64_t j = i; j < std::min(i + 4, end); ++j) data[j] = static_cast<scalar_t>(f(words.x[j - i]));
      }
    });
  });
}

}  // namespace

void fill_normal(at::Tensor out, const RandomStream& stream) {
  if (out.scalar_type() == at::kFloat) {
    auto* data = out.data_ptr<float>();
    for_chunks(out, [&](std::int64_t begin, std::int64_t end) { normals(stream, begin, end, data + begin); });
  } else {  // the same numbers: a run in float64 differs from one in float32 by rounding alone
    auto* data = out.data_ptr<double>();
    for_chunks(out, [&](std::int64_t begin, std::int64_t end) {
      float block[kChunk];
      normals(stream, begin, end, block);
      std::copy(block, block + (end - begin), data + begin);
    });
  }
}

void fill_signs(at::Tensor out, const RandomStream& stream) {
  fill_words(out, stream, [](std::uint32_t word) { return (word >> 31) != 0 ? 1.0f : -1.0f; });
}

void fill_uniform(at::Tensor out, const RandomStream& stream) { fill_words(out, stream, uniform_open); }

}  // namespace covnoise
