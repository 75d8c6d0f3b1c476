#pragma once
#include "covnoise/ops/internal/optional_tensor.h"
#include "covnoise/ops/philox.h"
#include "ops/random_kernel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

// What the updates of the optimizers share on a CPU.
namespace covnoise::update_loop {

constexpr std::int64_t kGrain = 1 << 15, kNoiseChunk = 4096;  // the latter a multiple of 4, for the stream's blocks

/// Noise given by its variance, in chunks that stay in the cache.
template <typename T, class Range>
void update_drawing(std::int64_t size, const T* variance, T scale, const RandomStream& stream, const Range& range) {
  at::parallel_for(0, (size + kNoiseChunk - 1) / kNoiseChunk, 8, [&](std::int64_t first, std::int64_t last) {
    float normal[kNoiseChunk];
    T noise[kNoiseChunk];
    for (std::int64_t c = first; c < last; ++c) {
      const std::int64_t begin = c * kNoiseChunk, end = std::min(size, begin + kNoiseChunk);
      normals(stream, begin, end, normal);
      scale_normals(end - begin, variance + begin, scale, normal, noise);
      range(begin, end, noise);
    }
  });
}

/// range(begin, end, noise) over all elements, with the noise of `begin` first; null without noise.
template <typename T, class Range>
void update_all(std::int64_t size, const OptionalTensor& noise, const OptionalTensor& variance, double noise_scale,
                const RandomStream& stream, const Range& range) {
  if (variance.has_value())
    return update_drawing(size, variance->data_ptr<T>(), static_cast<T>(noise_scale), stream, range);
  const T* given = noise.has_value() ? noise->data_ptr<T>() : nullptr;
  at::parallel_for(0, size, kGrain,
                   [&](std::int64_t begin, std::int64_t end) { range(begin, end, given ? given + begin : nullptr); });
}

inline void check_buffer(const OptionalTensor& buffer, const at::Tensor& values) {
  TORCH_CHECK(
      !buffer.has_value() || (buffer->is_contiguous() && buffer->numel() == values.numel() &&
                              buffer->scalar_type() == values.scalar_type() && buffer->device() == values.device()),
      "the update needs contiguous buffers of one size, type and device");
}

/// Operators take the stream as two numbers.
inline void check_stream(bool drawn, const RandomStream& stream) {
  TORCH_CHECK(!drawn || (stream.purpose == Purpose::kNoise && stream.first == 0),
              "noise by its variance is drawn from the whole of a stream for noise");
}

}  // namespace covnoise::update_loop
