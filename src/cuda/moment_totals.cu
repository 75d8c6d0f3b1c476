#include "cuda/moment_totals.h"

#include "cuda/table.cuh"

namespace covnoise::cuda {
namespace {

constexpr int kTotalThreads = 256;
constexpr long long kTotalElements = 32 * kTotalThreads;  // of a thread block

struct TotalBlocks {
  MomentTable table;
  unsigned end[MomentTable::kMost];
};
static_assert(sizeof(TotalBlocks) <= 4000, "kernel arguments");

/// Both sums over the threads of a block, in a fixed order; the result is thread 0's.
__device__ void add_threads(double& squares, double& sums) {
  __shared__ double shared[2][kTotalThreads];
  shared[0][threadIdx.x] = squares, shared[1][threadIdx.x] = sums;
  for (int half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    shared[0][threadIdx.x] += shared[0][threadIdx.x + half];
    shared[1][threadIdx.x] += shared[1][threadIdx.x + half];
  }
  squares = shared[0][0], sums = shared[1][0];
}

template <class T>
__global__ void __launch_bounds__(kTotalThreads)
    partial_kernel(const __grid_constant__ TotalBlocks blocks, double* partial) {
  const int k = entry_of_block(blocks.end, blocks.table.count);
  const MomentTable::Moments& m = blocks.table.moments[k];
  const unsigned block = blockIdx.x - (k == 0 ? 0 : blocks.end[k - 1]);
  const T* data = static_cast<const T*>(m.data);
  const long long begin = block * kTotalElements + threadIdx.x;
  const long long end = min(m.size, (block + 1) * kTotalElements);
  double squares = 0, sums = 0;
#pragma unroll 4
  for (long long i = begin; i < end; i += kTotalThreads) {
    const double sum = data[i];
    squares += data[m.size + i];
    sums += sum * sum;
  }
  add_threads(squares, sums);
  if (threadIdx.x == 0) partial[2 * blockIdx.x] = squares, partial[2 * blockIdx.x + 1] = sums;
}

__global__ void __launch_bounds__(kTotalThreads)
    total_kernel(const double* partial, unsigned blocks, TotalWeights weights, double* result) {
  double squares = 0, sums = 0;
  for (unsigned i = threadIdx.x; i < blocks; i += kTotalThreads) squares += partial[2 * i], sums += partial[2 * i + 1];
  add_threads(squares, sums);
  if (threadIdx.x != 0) return;
  for (int i = 0; i < weights.count; ++i) result[i] = weights.of_squares[i] * squares + weights.of_sums[i] * sums;
}

}  // namespace

unsigned partial_totals(long long size) { return static_cast<unsigned>(divide_up(size, kTotalElements)); }

void add_partial_totals(const MomentTable& table, bool of_doubles, double* partial, cudaStream_t stream) {
  TotalBlocks blocks{table, {}};
  unsigned end = 0;
  for (int k = 0; k < table.count; ++k) blocks.end[k] = end += partial_totals(table.moments[k].size);
  if (end == 0) return;
  if (of_doubles) {
    partial_kernel<double><<<end, kTotalThreads, 0, stream>>>(blocks, partial);
  } else {
    partial_kernel<float><<<end, kTotalThreads, 0, stream>>>(blocks, partial);
  }
  check_launch("partial totals");
}

void add_totals(const double* partial, unsigned blocks, const TotalWeights& weights, double* result,
                cudaStream_t stream) {
  total_kernel<<<1, kTotalThreads, 0, stream>>>(partial, blocks, weights, result);
  check_launch("totals");
}

}  // namespace covnoise::cuda
