#include "ops/sample_diagonal.h"

#include "ops/random_kernel.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr std::int64_t kSampleChunk = 4096;  // elements; a multiple of 4, as normals() wants it

template <class T>
void sample_one(const T* sums, std::int64_t size, T of_sums, T factor, T scale, const RandomStream& stream, T* out) {
  const T* squares = sums + size;
  at::parallel_for(0, (size + kSampleChunk - 1) / kSampleChunk, 4, [&](std::int64_t first, std::int64_t last) {
    float normal[kSampleChunk];
    T variance[kSampleChunk];
    for (std::int64_t begin = first * kSampleChunk; begin < std::min(size, last * kSampleChunk);
         begin += kSampleChunk) {
      const std::int64_t end = std::min(size, begin + kSampleChunk);
      normals(stream, begin, end, normal);
      for (std::int64_t i = begin; i < end; ++i)  // as group_variance rounds it
        variance[i - begin] = std::max(squares[i] - of_sums * sums[i] * sums[i], T(0)) * factor;
      scale_normals(end - begin, variance, scale, normal, out + begin);
    }
  });
}

std::vector<at::Tensor> sample_diagonal_cpu(at::TensorList moments, at::TensorList like, double of_sums, double factor,
                                            at::ArrayRef<double> scales, std::int64_t seed, std::int64_t purpose,
                                            std::int64_t step, at::IntArrayRef firsts) {
  const DiagonalSamples call{moments, of_sums, factor, scales, firsts};
  call.check(like);
  std::vector<at::Tensor> samples;
  for (std::size_t k = 0; k < moments.size(); ++k) {
    const RandomStream stream{static_cast<std::uint64_t>(seed), static_cast<Purpose>(purpose),
                              static_cast<std::uint32_t>(step), static_cast<std::uint64_t>(firsts[k])};
    auto sample = call.empty(k, like[k]);
    auto target = sample.is_contiguous() ? sample : at::empty(sample.sizes(), sample.options());
    AT_DISPATCH_FLOATING_TYPES(moments[k].scalar_type(), "sample_diagonal", [&] {
      sample_one<scalar_t>(moments[k].data_ptr<scalar_t>(), target.numel(), static_cast<scalar_t>(of_sums),
                           static_cast<scalar_t>(factor), static_cast<scalar_t>(scales[k]), stream,
                           target.data_ptr<scalar_t>());
    });
    samples.push_back(sample.is_same(target) ? sample : sample.copy_(target));
  }
  return samples;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(covnoise, m) {
  m.def(
      "sample_diagonal(Tensor[] moments, Tensor[] like, float of_sums, float factor, float[] scales, int seed, "
      "int purpose, int step, int[] firsts) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(covnoise, CPU, m) { m.impl("sample_diagonal", sample_diagonal_cpu); }

}  // namespace covnoise
