#pragma once
#include "cuda/types.h"

#include <cstddef>

namespace covnoise::cuda {

/// Some parameters in the kernel's arguments, of 4 KB at most: no copy to the device.
struct MomentTable {
  static constexpr int kMost = 128;
  struct Moments {
    const void* data;  ///< [2, size]
    long long size;
  };
  int count = 0;
  Moments moments[kMost];
};

/// Thread blocks that `add_partial_totals` launches for a parameter; each writes two numbers.
unsigned partial_totals(long long size);

/// [sum of moments[1], sum of moments[0]^2] of each thread block, in their order, to `partial`.
void add_partial_totals(const MomentTable& table, bool of_doubles, double* partial, cudaStream_t stream);

constexpr int kMostTotals = 4;
struct TotalWeights {
  int count = 0;  ///< of results
  double of_squares[kMostTotals], of_sums[kMostTotals];
};
/// Weighted sums of `blocks` pairs of numbers, always in the same order.
void add_totals(const double* partial, unsigned blocks, const TotalWeights& weights, double* result,
                cudaStream_t stream);

}  // namespace covnoise::cuda
