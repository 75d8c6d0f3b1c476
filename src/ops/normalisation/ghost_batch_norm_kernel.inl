// The kernels, compiled once per instruction set. The loops over the positions of one plane are the vector loops; a
// plane is read from memory once and then from the L1 cache.
#include "ops/normalisation/ghost_batch_norm_kernel.h"

#include <cmath>

namespace covnoise::ghost_norm {
namespace {

// Elements added up in the tensor's own precision before they join a sum in double precision.
constexpr std::int64_t kBlock = 512;

/// A size known to the compiler: planes of a few positions would otherwise spend their time in loop remainders.
template <std::int64_t kSize>
struct Fixed {
  constexpr operator std::int64_t() const { return kSize; }
};

template <class T, class Size>
double plane_sum(const T* __restrict x, Size n) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = begin + kBlock < n ? begin + kBlock : n;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t t = begin; t < end; ++t) sum += x[t];
    total += static_cast<double>(sum);
  }
  return total;
}

/// Sum of x - centre into `first`, of its square into `second`.
template <class T, class Size>
void plane_moments(const T* __restrict x, Size n, T centre, double& first, double& second) {
  first = second = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = begin + kBlock < n ? begin + kBlock : n;
    T sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum, squares)
    for (std::int64_t t = begin; t < end; ++t) {
      sum += x[t] - centre;
      squares += (x[t] - centre) * (x[t] - centre);
    }
    first += static_cast<double>(sum);
    second += static_cast<double>(squares);
  }
}

// Two passes over the plane, around its own mean: accurate even where the mean is far larger than the standard
// deviation.
template <class T, class Size>
void add_plane(const T* x, Size n, bool is_first, ChannelSums& sums) {
  const double count = static_cast<double>(n);
  const T centre = static_cast<T>(plane_sum(x, n) / count);
  double rest, squares;
  plane_moments(x, n, centre, rest, squares);
  const double mean = static_cast<double>(centre) + rest / count;
  if (is_first) sums = {mean, 0, 0, 0};
  const double offset = mean - sums.shift;
  sums.first += offset;
  sums.second += offset * offset;
  sums.within += squares - rest * rest / count;
}

/// Sum of dy into `first`, of dy (x - mean) into `second`.
template <class T, class Size>
void plane_products(const T* __restrict dy, const T* __restrict x, Size n, T mean, double& first, double& second) {
  first = second = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = begin + kBlock < n ? begin + kBlock : n;
    T sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t t = begin; t < end; ++t) {
      sum += dy[t];
      product += dy[t] * (x[t] - mean);
    }
    first += static_cast<double>(sum);
    second += static_cast<double>(product);
  }
}

/// Mean and variance of each channel from the sums over its planes, which all have the same size.
template <class T>
void finish_statistics(const Shape& shape, const Forward<T>& a, std::int64_t channel, const ChannelSums& sums) {
  const double examples = static_cast<double>(shape.examples), count = static_cast<double>(shape.count());
  const double between = sums.second - sums.first * sums.first / examples;
  const double squares = sums.within + static_cast<double>(shape.positions) * between;
  const double mean = sums.shift + sums.first / examples;
  a.exact_mean[channel] = mean;
  a.unbiased_variance[channel] = squares / (count - 1);
  a.mean[channel] = static_cast<T>(mean);
  a.rstd[channel] = static_cast<T>(1 / std::sqrt(squares / count + a.eps));
}

template <class T, class Size>
void forward(const Shape& shape, const Forward<T>& a, std::int64_t begin, std::int64_t end, ChannelSums* sums, Size n) {
  for (std::int64_t i = 0; i < shape.examples; ++i)
    for (std::int64_t c = begin; c < end; ++c)
      add_plane(a.x + (i * shape.channels + c) * n, n, i == 0, sums[c - begin]);
  for (std::int64_t c = begin; c < end; ++c) finish_statistics(shape, a, c, sums[c - begin]);
  for (std::int64_t i = 0; i < shape.examples; ++i)
    for (std::int64_t c = begin; c < end; ++c) {
      const T* __restrict x = a.x + (i * shape.channels + c) * n;
      T* __restrict y = a.y + (i * shape.channels + c) * n;
      const T mean = a.mean[c], scale = a.weight[c] * a.rstd[c], shift = a.bias[c];
#pragma omp simd
      for (std::int64_t t = 0; t < n; ++t) y[t] = (x[t] - mean) * scale + shift;
    }
}

// dx = weight rstd (dy - mean(dy) - xhat mean(dy xhat)), means over the ghost batch.
template <class T, class Size>
void backward(const Shape& shape, const Backward<T>& a, std::int64_t begin, std::int64_t end, ChannelSums* sums,
              Size n) {
  for (std::int64_t i = 0; i < shape.examples; ++i)
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t plane = i * shape.channels + c;
      double sum, product;
      plane_products(a.dy + plane * n, a.x + plane * n, n, a.mean[c], sum, product);
      product *= static_cast<double>(a.rstd[c]);
      a.dbias[plane] = static_cast<T>(sum);
      a.dweight[plane] = static_cast<T>(product);
      if (i == 0) sums[c - begin] = {0, 0, 0, 0};
      sums[c - begin].first += sum;
      sums[c - begin].second += product;
    }
  const double count = static_cast<double>(shape.count());
  for (std::int64_t i = 0; i < shape.examples; ++i)
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t plane = i * shape.channels + c;
      const T* __restrict dy = a.dy + plane * n;
      const T* __restrict x = a.x + plane * n;
      T* __restrict dx = a.dx + plane * n;
      const T mean = a.mean[c], scale = a.weight[c] * a.rstd[c];
      const T mean_dy = static_cast<T>(sums[c - begin].first / count);
      const T slope = static_cast<T>(static_cast<double>(a.rstd[c]) * sums[c - begin].second / count);
#pragma omp simd
      for (std::int64_t t = 0; t < n; ++t) dx[t] = scale * (dy[t] - mean_dy - (x[t] - mean) * slope);
    }
}

template <class T>
void forward(const Shape& shape, const Forward<T>& a, std::int64_t begin, std::int64_t end, ChannelSums* sums) {
  switch (shape.positions) {
    case 1:
      return forward(shape, a, begin, end, sums, Fixed<1>());
    case 4:
      return forward(shape, a, begin, end, sums, Fixed<4>());
    case 16:
      return forward(shape, a, begin, end, sums, Fixed<16>());
    default:
      return forward(shape, a, begin, end, sums, shape.positions);
  }
}

template <class T>
void backward(const Shape& shape, const Backward<T>& a, std::int64_t begin, std::int64_t end, ChannelSums* sums) {
  switch (shape.positions) {
    case 1:
      return backward(shape, a, begin, end, sums, Fixed<1>());
    case 4:
      return backward(shape, a, begin, end, sums, Fixed<4>());
    case 16:
      return backward(shape, a, begin, end, sums, Fixed<16>());
    default:
      return backward(shape, a, begin, end, sums, shape.positions);
  }
}

}  // namespace
}  // namespace covnoise::ghost_norm

#define COVNOISE_GHOST_NORM_KERNELS(name)                                                         \
  namespace covnoise::ghost_norm {                                                                \
  const KernelTable name{{forward<float>, backward<float>}, {forward<double>, backward<double>}}; \
  }
