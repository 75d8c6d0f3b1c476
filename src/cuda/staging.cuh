#pragma once
#include "cuda/tensor_core.cuh"

#include <cuda_bf16.h>

// Images in shared memory, as tensor cores need them. Swizzled (always in bf16), a position is a row of its channels,
// in groups of 16 bytes; group g of position r is at index g ^ f(r) of the row, where f makes eight neighbouring
// positions fill 128 bytes of different banks (the pattern of the TMA's swizzles of 32, 64 and 128 bytes). A
// warp then writes what it reads, line by line, to consecutive addresses; anything else doubles the cache requests.
// Stages start at multiples of 1024 bytes. Otherwise channels are in planes of 16 bytes, [plane][position][16 bytes].
//
// Columns beside the image and channels beyond the last are never written: the stages must hold zeros at first
// (clear_stages). Rows above and below it are written as zeros. (Copies of zero bytes would not do: they all access the
// same address, and the cache slice that holds it becomes the bottleneck.)
namespace covnoise::cuda {

/// Part of a tensor [N, H, W, C]: which rows and columns of which examples and channels to stage.
struct Patch {
  const void* data;
  int height, width, channels;    ///< of the tensor
  int first_channel;              ///< of the block's tile
  int example, examples;          ///< first example, and how many of `staged_examples` exist
  int staged_examples;            ///< the rest is zeros
  int first_row, row_step, rows;  ///< row i of the patch is row first_row + i row_step of the image
  int last_row;                   ///< rows of the image from here on are zeros
  int first_column, columns;      ///< likewise, with step 1
  int example_positions;          ///< distance between examples in the stage, in positions; at least rows * columns
};

template <class T>
constexpr int kGroup = 16 / static_cast<int>(sizeof(T));  // channels in a plane

/// Where a group of 16 bytes is in a row at byte `row` of a swizzled stage: rows of 32, 64 or 128 bytes.
template <int kPlanes>
__device__ __forceinline__ std::uint32_t swizzled(std::uint32_t row, std::uint32_t group_bytes) {
  return row + (((row >> 3) & ((kPlanes - 1) * 16)) ^ group_bytes);
}

/// Calls visit(target byte offset, pixel pointer, channel, row exists) for this thread's share of the patch: a warp
/// takes a row, a thread stays in its plane. Only pixels inside the image's columns.
template <class T, int kPlanes, bool kSwizzle, class Visit>
__device__ __forceinline__ void for_each_group(const Patch& p, int plane_bytes, const Visit& visit) {
  constexpr int kStep = 32 / kPlanes;  // columns at once
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int plane = lane % kPlanes, channel = p.first_channel + plane * kGroup<T>;
  if (channel >= p.channels) return;
  const int first = max(0, -p.first_column) + lane / kPlanes, last = min(p.columns, p.width - p.first_column);
  const T* data = static_cast<const T*>(p.data) + channel + (p.first_column + first) * p.channels;
  int e = 0, i = threadIdx.x / 32;
  while (i >= p.rows) i -= p.rows, ++e;
  while (e < p.staged_examples) {
    const int row = p.first_row + i * p.row_step;
    const bool exists = e < p.examples && row >= 0 && row < p.last_row;
    const T* source = data + (static_cast<long long>(p.example + e) * p.height + row) * p.width * p.channels;
    constexpr int kRow = kSwizzle ? kPlanes * 16 : 16;
    int target = (e * p.example_positions + i * p.columns + first) * kRow;
    for (int column = first; column < last; column += kStep) {
      visit(kSwizzle ? static_cast<int>(swizzled<kPlanes>(target, plane * 16)) : target + plane * plane_bytes, source,
            channel, exists);
      target += kStep * kRow;
      source += kStep * p.channels;
    }
    i += warps;
    while (i >= p.rows) i -= p.rows, ++e;
  }
}

/// Copies groups of channels in pieces of kBytes, which divide a pixel.
template <class T, int kPlanes, bool kSwizzle, int kBytes>
__device__ __forceinline__ void stage_pieces(const Patch& p, std::uint32_t target, char* generic_target,
                                             int plane_bytes) {
  constexpr int kElements = kBytes / sizeof(T);
  for_each_group<T, kPlanes, kSwizzle>(p, plane_bytes, [&](int offset, const T* source, int channel, bool exists) {
    if (!exists) {
      *reinterpret_cast<uint4*>(generic_target + offset) = make_uint4(0, 0, 0, 0);
      return;
    }
#pragma unroll
    for (int k = 0; k < kGroup<T> / kElements; ++k) {
      if (kBytes < 16 && channel + k * kElements >= p.channels) continue;
      if constexpr (kBytes >= 4)
        copy_async<kBytes>(target + offset + k * kBytes, source + k * kElements);
      else
        reinterpret_cast<T*>(generic_target + offset)[k] = source[k];
    }
  });
}

/// Starts the copy of a patch. Pixels of an odd number of bf16 are copied by element, at once.
template <class T, int kPlanes, bool kSwizzle = sizeof(T) == 2>
__device__ __forceinline__ void stage(const Patch& p, std::uint32_t target, char* generic_target, int plane_bytes) {
  const int pixel = p.channels * static_cast<int>(sizeof(T));
  if (pixel % 16 == 0)
    stage_pieces<T, kPlanes, kSwizzle, 16>(p, target, generic_target, plane_bytes);
  else if (pixel % 4 == 0)
    stage_pieces<T, kPlanes, kSwizzle, 4>(p, target, generic_target, plane_bytes);
  else
    stage_pieces<T, kPlanes, kSwizzle, sizeof(T)>(p, target, generic_target, plane_bytes);
}

__device__ inline void clear_stages(char* stages, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x)
    reinterpret_cast<uint4*>(stages)[i] = make_uint4(0, 0, 0, 0);
}

}  // namespace covnoise::cuda
