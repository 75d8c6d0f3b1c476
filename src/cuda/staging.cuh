#pragma once
#include "cuda/tensor_core.cuh"

#include <cuda_bf16.h>

// Images in shared memory, as tensor cores want them: channels in planes of 16 bytes (8 bf16 or 4 float),
//
//     [plane][position][16 bytes],
//
// so that eight neighbouring positions of a plane are 128 consecutive bytes (no bank is asked twice) and every kernel
// offset is a constant distance. Padding is staged as zeros.
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

/// y = relu(x * scale + shift), by ghost batch and channel [G, C]: the normalisation before a convolution, applied
/// where its input is loaded.
struct Prologue {
  const float *scale = nullptr, *shift = nullptr;
  int ghost_batch = 0;
};

template <class T>
constexpr int kGroup = 16 / static_cast<int>(sizeof(T));  // channels in a plane

/// visit(target byte offset, pixel pointer, plane, valid, example) for this thread's share of the patch: a warp takes a
/// row.
template <class T, int kPlanes, class Visit>
__device__ inline void for_each_group(const Patch& p, int plane_bytes, const Visit& visit) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const T* data = static_cast<const T*>(p.data);
  for (int line = warp; line < p.staged_examples * p.rows; line += warps) {
    const int e = line / p.rows, i = line - e * p.rows;
    const int row = p.first_row + i * p.row_step;
    const bool row_valid = e < p.examples && row >= 0 && row < p.last_row;
    const T* source =
        data + (static_cast<long long>(p.example + e) * p.height + row) * p.width * p.channels + p.first_channel;
    const int target = (e * p.example_positions + i * p.columns) * 16;
    for (int j = lane; j < p.columns * kPlanes; j += 32) {
      const int column = j / kPlanes, plane = j % kPlanes;
      const int x = p.first_column + column;
      const bool valid = row_valid && x >= 0 && x < p.width && p.first_channel + plane * kGroup<T> < p.channels;
      visit(target + plane * plane_bytes + column * 16, source + x * p.channels + plane * kGroup<T>, plane, valid,
            p.example + e);
    }
  }
}

/// Starts the copy of a patch. Channels that are no multiple of 16 bytes are copied by element, at once.
template <class T, int kPlanes>
__device__ inline void stage(const Patch& p, std::uint32_t target, char* generic_target, int plane_bytes) {
  if (p.channels % kGroup<T> == 0) {
    for_each_group<T, kPlanes>(p, plane_bytes, [&](int offset, const T* source, int, bool valid, int) {
      copy_async(target + offset, valid ? static_cast<const void*>(source) : p.data, valid);
    });
    return;
  }
  for_each_group<T, kPlanes>(p, plane_bytes, [&](int offset, const T* source, int plane, bool valid, int) {
    union {
      uint4 bytes;
      T values[kGroup<T>];
    } group;
    group.bytes = make_uint4(0, 0, 0, 0);
    const int left = p.channels - p.first_channel - plane * kGroup<T>;
#pragma unroll
    for (int k = 0; k < kGroup<T>; ++k)
      if (valid && k < left) group.values[k] = source[k];
    *reinterpret_cast<uint4*>(generic_target + offset) = group.bytes;
  });
}

/// Applies the prologue in place to what this same thread has copied (its copies must have arrived). bf16.
template <int kPlanes>
__device__ inline void apply_prologue(const Patch& p, const Prologue& prologue, char* target, int plane_bytes) {
  float scale[8], shift[8];
  int loaded = -1;
  for_each_group<__nv_bfloat16, kPlanes>(
      p, plane_bytes, [&](int offset, const __nv_bfloat16*, int plane, bool valid, int example) {
        if (!valid) return;
        const int ghost = example / prologue.ghost_batch;
        if (ghost != loaded) {
          const int at = ghost * p.channels + p.first_channel + plane * 8;
#pragma unroll
          for (int k = 0; k < 8; ++k) scale[k] = prologue.scale[at + k], shift[k] = prologue.shift[at + k];
          loaded = ghost;
        }
        uint4 bytes = *reinterpret_cast<uint4*>(target + offset);
        auto* values = reinterpret_cast<__nv_bfloat162*>(&bytes);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float2 x = __bfloat1622float2(values[k]);
          values[k] = __floats2bfloat162_rn(fmaxf(fmaf(x.x, scale[2 * k], shift[2 * k]), 0.0f),
                                            fmaxf(fmaf(x.y, scale[2 * k + 1], shift[2 * k + 1]), 0.0f));
        }
        *reinterpret_cast<uint4*>(target + offset) = bytes;
      });
}

}  // namespace covnoise::cuda
