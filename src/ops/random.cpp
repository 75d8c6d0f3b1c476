#include "covnoise/ops/random.h"

#include "ops/random_kernel.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

constexpr std::int64_t kChunk = 4096;  // a multiple of 4, so that threads share no block of four words

/// Calls fill(begin, end) over the elements of `out` in parallel, in chunks that do not depend on the number of
/// threads.
template <class Fill>
void for_chunks(const at::Tensor& out, const Fill& fill) {
  TORCH_CHECK(out.is_contiguous(), "random numbers fill contiguous tensors");
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

/// Element i of `out` = f(normal i of the stream, i). The same normals in every type: a run in float64 differs from one
/// in float32 only by rounding.
template <class Function>
void transform_normals(at::Tensor& out, const RandomStream& stream, const Function& f) {
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, out.scalar_type(), "transform_normals", [&] {
    auto* data = out.data_ptr<scalar_t>();
    for_chunks(out, [&](std::int64_t begin, std::int64_t end) {
      float block[kChunk];
      normals(stream, begin, end, block);
      for (std::int64_t i = begin; i < end; ++i)
        data[i] = static_cast<scalar_t>(f(static_cast<scalar_t>(block[i - begin]), i));
    });
  });
}

enum class Distribution : std::int64_t { kNormal, kSigns, kUniform };  // in the operator's numbering

RandomStream stream_of(std::int64_t seed, std::int64_t purpose, std::int64_t step, std::int64_t first) {
  return {static_cast<std::uint64_t>(seed), static_cast<Purpose>(purpose), static_cast<std::uint32_t>(step),
          static_cast<std::uint64_t>(first)};
}

void fill_cpu(at::Tensor out, std::int64_t distribution, std::int64_t seed, std::int64_t purpose, std::int64_t step,
              std::int64_t first) {
  const RandomStream stream = stream_of(seed, purpose, step, first);
  switch (static_cast<Distribution>(distribution)) {
    case Distribution::kNormal:
      return transform_normals(out, stream, [](auto normal, std::int64_t) { return normal; });
    case Distribution::kSigns:
      return fill_words(out, stream, [](std::uint32_t word) { return (word >> 31) != 0 ? 1.0f : -1.0f; });
    case Distribution::kUniform:
      return fill_words(out, stream, uniform_open);
  }
}

void fill_of_variance_cpu(at::Tensor out, const at::Tensor& variance, std::int64_t seed, std::int64_t purpose,
                          std::int64_t step, std::int64_t first) {
  TORCH_CHECK(
      variance.is_contiguous() && variance.numel() == out.numel() && variance.scalar_type() == out.scalar_type(),
      "variances must be contiguous, and of the size and type of what they are for");
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "fill_normal_of_variance", [&] {
    const auto* v = variance.data_ptr<scalar_t>();
    transform_normals(out, stream_of(seed, purpose, step, first),
                      [v](auto normal, std::int64_t i) { return static_cast<scalar_t>(std::sqrt(v[i]) * normal); });
  });
}

void fill(const at::Tensor& out, Distribution distribution, const RandomStream& stream) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("covnoise::fill_random", "").typed<decltype(fill_cpu)>();
  op.call(out, static_cast<std::int64_t>(distribution), static_cast<std::int64_t>(stream.seed),
          static_cast<std::int64_t>(stream.purpose), stream.step, static_cast<std::int64_t>(stream.first));
}

}  // namespace

void fill_normal(const at::Tensor& out, const RandomStream& stream) { fill(out, Distribution::kNormal, stream); }

void fill_normal_of_variance(const at::Tensor& out, const at::Tensor& variance, const RandomStream& stream) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("covnoise::fill_normal_of_variance", "")
                             .typed<decltype(fill_of_variance_cpu)>();
  op.call(out, variance, static_cast<std::int64_t>(stream.seed), static_cast<std::int64_t>(stream.purpose), stream.step,
          static_cast<std::int64_t>(stream.first));
}

void fill_signs(const at::Tensor& out, const RandomStream& stream) { fill(out, Distribution::kSigns, stream); }

void fill_uniform(const at::Tensor& out, const RandomStream& stream) { fill(out, Distribution::kUniform, stream); }

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def("fill_random(Tensor(a!) out, int distribution, int seed, int purpose, int step, int first) -> ()");
  m.def("fill_normal_of_variance(Tensor(a!) out, Tensor variance, int seed, int purpose, int step, int first) -> ()");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) {
  m.impl("fill_random", fill_cpu);
  m.impl("fill_normal_of_variance", fill_of_variance_cpu);
}

}  // namespace covnoise
