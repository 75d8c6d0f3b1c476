#pragma once
#include <cstdint>

// Shared by the files of ghost batch normalisation: arguments, and one table of functions per instruction set. The
// kernels must not use library templates: the linker could keep their AVX-512 copy for the whole program.
namespace covnoise::ghost_norm {

/// One ghost batch: [examples, channels, positions], contiguous.
struct Shape {
  std::int64_t examples, channels, positions;
  std::int64_t count() const { return examples * positions; }  ///< values that share a mean
};

/// Running sums of one channel over its planes (the positions of one example), for both passes.
struct ChannelSums {
  double shift;  ///< mean of the first plane; keeps the sums below free of cancellation
  double first,
      second;     ///< forward: sum of (m - shift) and (m - shift)^2 over the planes' means m; backward: dbias, dweight
  double within;  ///< sum of squares around each plane's own mean
};

/// Pointers to one ghost batch's part of the tensors; those with one value per channel start at channel 0.
template <class T>
struct Forward {
  const T *x, *weight, *bias;
  T *y, *mean, *rstd;
  double *exact_mean, *unbiased_variance;
  double eps;
};

template <class T>
struct Backward {
  const T *dy, *x, *weight, *mean, *rstd;
  T *dx, *dweight, *dbias;  ///< dweight and dbias [examples, channels]
};

/// Each call computes channels [begin, end) of one ghost batch; `sums` has room for end - begin.
template <class T>
struct Kernels {
  void (*forward)(const Shape& shape, const Forward<T>& a, std::int64_t begin, std::int64_t end, ChannelSums* sums);
  void (*backward)(const Shape& shape, const Backward<T>& a, std::int64_t begin, std::int64_t end, ChannelSums* sums);
};

struct KernelTable {
  Kernels<float> for_float;
  Kernels<double> for_double;
};

extern const KernelTable kPortableKernels, kAvx2Kernels, kAvx512Kernels;

}  // namespace covnoise::ghost_norm
