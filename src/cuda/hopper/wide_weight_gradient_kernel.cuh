#pragma once
#include "cuda/hopper/warpgroup.cuh"
#include "cuda/hopper/wide_weight_gradient_boxes.cuh"

// The kernel of wide_weight_gradient.h. As a product: rows are outputs, columns are input channels, once for each
// kernel offset; the sum runs over positions. A chunk is 64 positions: a box of dz for 64 outputs, and for a kernel
// offset and 64 channels the box of x shifted by the offset. TMA puts zeros where a box leaves
// the image, so images of any size up to 64 columns fit: beside and below them dz is 0.
//
// A block has two warpgroups that multiply and one that issues copies and cedes its registers to them. Each of the two
// has 64 outputs and two column blocks, of 64 channels at one kernel offset.
namespace covnoise::cuda::wide {

/// The sums of a thread, in two halves of a column block each: of the group so far, of all groups, of their squares.
template <bool kSquares>
struct Sums {
  float now[2][kSums / 2], all[2][kSquares ? kSums / 2 : 1], squares[kSquares ? kSums : 1];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      now[i / 32][i % 32] = 0;
      if constexpr (kSquares) all[i / 32][i % 32] = squares[i] = 0;
    }
  }
  template <int kHalf, bool kSum = true>
  __device__ void end_group() {
#pragma unroll
    for (int i = 0; i < kSums / 2; ++i) {
      const float sum = now[kHalf][i];
      if constexpr (kSum) all[kHalf][i] += sum;
      squares[kHalf * 32 + i] = fmaf(sum, sum, squares[kHalf * 32 + i]);
    }
  }
  __device__ float total(int i) const { return kSquares ? all[i / 32][kSquares ? i % 32 : 0] : now[i / 32][i % 32]; }
};

template <bool kSquares>
__device__ void put(const Sums<kSquares>& sums, const Work& w, const Share& share) {
  float* slot = w.workspace + w.slot(share.tile, share.part) * (kSquares ? 2 : 1) * kTileSums + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    slot[i * kWorkers] = sums.total(i);
    if constexpr (kSquares) slot[kTileSums + i * kWorkers] = sums.squares[i];
  }
}

/// Where this warpgroup's operands are in a stage.
template <int kOutputBlocks>
struct Operands {
  std::uint64_t dz, x;
  __device__ explicit Operands(std::uint32_t stage) {
    const int group = threadIdx.x / 128;
    dz = describe_operand(stage + group % kOutputBlocks * kBoxBytes, kBoxBytes);
    x = describe_operand(stage + (kOutputBlocks + group / kOutputBlocks * 2) * kBoxBytes, kBoxBytes);
  }
};
constexpr int kSteps = kSide / 16;  // of a product, in a chunk

/// Squares, if needed, are those of units.
template <int kOutputBlocks, bool kSquares>
__device__ void work(Sums<kSquares>& sums, const Work& w, const Share& share, const Stages<kOutputBlocks>& stages) {
  Place<Layout<kOutputBlocks>::kStages> place;
  int before = -1, add = kSquares ? 0 : 1, left = w.chunks;
  for (int chunk = share.begin * w.chunks; chunk < share.end * w.chunks; ++chunk, place.advance()) {
    wait_barrier(stages.full(place.index), place.round);
    const Operands<kOutputBlocks> at(stages.at(place.index));
    begin_products();
#pragma unroll
    for (int s = 0; s < kSteps; ++s, add = 1)
      multiply_64x128(sums.now[0], sums.now[1], at.dz + s * kDescribedStep, at.x + s * kDescribedStep, add);
    commit_products();
    // A stage may be refilled once the products that read it are done: those of the previous chunk, or of this one.
    if (!kSquares || --left > 0) {
      wait_products<1>();
      if (before >= 0) stages.release(before);
      before = place.index;
      continue;
    }
    wait_products<0>();
    if (before >= 0) stages.release(before);
    stages.release(place.index);
    if constexpr (kSquares) sums.template end_group<0>(), sums.template end_group<1>();
    add = 0, left = w.chunks, before = -1;
  }
  wait_products<0>();
}

/// An example is kExampleSteps steps, and chunks are whole examples: one half's products run while the other half's are
/// squared. If an example is one step, squaring takes longer than multiplying, and the sum over examples is another
/// product instead of another addition.
template <int kOutputBlocks, int kExampleSteps>
__device__ void work_by_example(Sums<true>& sums, const Work& w, const Share& share,
                                const Stages<kOutputBlocks>& stages) {
  constexpr bool kSumByProducts = kExampleSteps == 1;
  Place<Layout<kOutputBlocks>::kStages> place;
  constexpr std::uint64_t kHalf = kBoxBytes >> 4, kExample = kExampleSteps * kDescribedStep;
  constexpr int kExamples = kSteps / kExampleSteps;
  const auto start = [](float(&half)[kSums / 2], std::uint64_t dz, std::uint64_t x) {
#pragma unroll
    for (int s = 0; s < kExampleSteps; ++s)
      multiply_64x64(half, dz + s * kDescribedStep, x + s * kDescribedStep, s > 0);
  };
  const auto start_first = [&](std::uint64_t dz, std::uint64_t x) {
    begin_products();
    start(sums.now[0], dz, x);
    commit_products();
  };
  const auto start_second = [&](std::uint64_t dz, std::uint64_t x) {
    begin_products();
    start(sums.now[1], dz, x + kHalf);
    if constexpr (kSumByProducts) multiply_64x128(sums.all[0], sums.all[1], dz, x, 1);
    commit_products();
  };
  for (int chunk = share.begin; chunk < share.end; ++chunk, place.advance()) {
    wait_barrier(stages.full(place.index), place.round);
    const Operands<kOutputBlocks> at(stages.at(place.index));
    start_first(at.dz, at.x);
    start_second(at.dz, at.x);
#pragma unroll
    for (int e = 0; e < kExamples; ++e) {
      const std::uint64_t next = (e + 1) * kExample;
      wait_products<1>();
      sums.template end_group<0, !kSumByProducts>();
      if (e + 1 < kExamples) {
        start_first(at.dz + next, at.x + next);
        wait_products<1>();
      } else {
        wait_products<0>();
        stages.release(place.index);
      }
      sums.template end_group<1, !kSumByProducts>();
      if (e + 1 < kExamples) start_second(at.dz + next, at.x + next);
    }
  }
}

enum class Squares { kNone, kGroups, kExamplesOf16, kExamplesOf64 };  // positions

template <int kOutputBlocks, Squares kSquares>
__global__ void __launch_bounds__(kThreads, 1) kernel(const __grid_constant__ Work w) {
  extern __shared__ char memory[];
  const Stages<kOutputBlocks> stages{(shared_address(memory) + 1023) / 1024 * 1024};
  stages.init();
  __syncthreads();
  const Share share(w);
  if (threadIdx.x >= kWorkers) {
    set_registers<40, false>();
    if (threadIdx.x % 32 == 0) bring<kOutputBlocks>(w, share, stages, (threadIdx.x - kWorkers) / 32);
  } else {
    set_registers<232, true>();
    Sums<kSquares != Squares::kNone> sums;
    sums.clear();
    if constexpr (kSquares == Squares::kExamplesOf16)
      work_by_example<kOutputBlocks, 1>(sums, w, share, stages);
    else if constexpr (kSquares == Squares::kExamplesOf64)
      work_by_example<kOutputBlocks, 4>(sums, w, share, stages);
    else
      work<kOutputBlocks>(sums, w, share, stages);
    put(sums, w, share);
  }
}

/// Where the sum of an output, channel and kernel offset is: a tile, and an index in its slots.
template <int kOutputBlocks>
struct SumPlace {
  int tile, at;
  __device__ SumPlace(const Work& w, int output, int channel, int offset) {
    constexpr int kColumnBlocks = Layout<kOutputBlocks>::kColumnBlocks;
    const int block = offset * w.channel_blocks + channel / kSide, row = output % kSide, column = channel % kSide;
    tile = output / (kOutputBlocks * kSide) * w.column_tiles + block / kColumnBlocks;
    const int group = output / kSide % kOutputBlocks + block % kColumnBlocks / 2 * kOutputBlocks;
    const int thread = group * 128 + row / 16 * 32 + row % 8 * 4 + column / 2 % 4;
    const int i = block % 2 * 32 + column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
    at = i * kWorkers + thread;
  }
};

/// A sum over parts and its square or squares.
struct PartSums {
  float sum = 0, squares = 0;

  /// Sums and squares of parts, every `step` from `slot` on.
  __device__ void add(const float* slot, long long step, int parts, bool squares_of_parts) {
#pragma unroll 8
    for (int part = 0; part < parts; ++part, slot += step) {
      sum += slot[0];
      if (squares_of_parts) squares += slot[kTileSums];
    }
  }
  /// Sums of parts, `group_parts` of which make a group that is squared: several loads are in flight, whatever the
  /// groups.
  __device__ void add_groups(const float* slot, long long step, int parts, int group_parts) {
    constexpr int kBatch = 8;
    float group = 0;
    int left = group_parts;
    for (int part = 0; part < parts; part += kBatch) {
      float values[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k, slot += step) values[k] = part + k < parts ? slot[0] : 0;
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        group += values[k];
        if (--left > 0) continue;
        sum += group;
        squares = fmaf(group, group, squares);
        group = 0, left = group_parts;
      }
    }
  }
};

constexpr int kAddSide = 8;  // outputs and channels of a warp, which then reads whole lines of a slot

/// A block of add_parts: `spans` times 8 channels of 8 outputs, at all kernel offsets.
struct AddBlock {
  int spans, warps, bytes;
  explicit AddBlock(int offsets)
      : spans(offsets < 8 ? 8 / offsets : 1),
        warps(spans * offsets < 16 ? spans * offsets : 16),
        bytes(2 * kAddSide * spans * kAddSide * offsets * static_cast<int>(sizeof(float))) {}
};

/// Adds the parts of each tile in order; gradient [O, C, offsets], and likewise the squares, which are added to. The
/// workspace has sums and squares of parts, or, with `group_parts`, only sums.
template <int kOutputBlocks>
__global__ void add_parts(const __grid_constant__ Work w, int spans, bool squares_of_parts) {
  extern __shared__ float results[];  // sums, then squares: [output][channel][offset]
  const int first_output = blockIdx.x * kAddSide, first_channel = blockIdx.y * spans * kAddSide;
  const int channels = min(spans * kAddSide, w.channels - first_channel);
  const int lane = threadIdx.x % 32, row = channels * w.offsets, squares_at = kAddSide * row;
  const long long step = squares_of_parts ? 2 * kTileSums : kTileSums;
  for (int item = threadIdx.x / 32; item * kAddSide < row; item += blockDim.x / 32)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int output = lane / 4, channel = item / w.offsets * kAddSide + lane % 4 * 2 + odd,
                offset = item % w.offsets;
      const SumPlace<kOutputBlocks> place(w, first_output + output, first_channel + channel, offset);
      const int parts = place.tile < w.whole_tiles ? 1 : w.parts;
      const float* slot = w.workspace + w.slot(place.tile, 0) * step + place.at;
      PartSums sums;
      if (w.group_parts > 0)
        sums.add_groups(slot, step, parts, w.group_parts);
      else
        sums.add(slot, step, parts, squares_of_parts);
      const int at = output * row + channel * w.offsets + offset;
      results[at] = sums.sum, results[squares_at + at] = sums.squares;
    }
  __syncthreads();
  const bool squares = squares_of_parts || w.group_parts > 0;
  for (int i = threadIdx.x; i < kAddSide * row; i += blockDim.x) {
    const long long target =
        (static_cast<long long>(first_output + i / row) * w.channels + first_channel) * w.offsets + i % row;
    w.gradient[target] = results[i];
    if (squares) w.squares[target] += results[squares_at + i];
  }
}

}  // namespace covnoise::cuda::wide
