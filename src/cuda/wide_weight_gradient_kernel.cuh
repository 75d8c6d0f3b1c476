#pragma once
#include "cuda/warpgroup.cuh"
#include "cuda/wide_weight_gradient_boxes.cuh"

// The kernel of wide_weight_gradient.h. As a product: rows are outputs, columns are input channels, once for each
// kernel offset; the sum runs over positions. A chunk is 64 positions: a box of dz for 64 outputs, and for a kernel
// offset and 64 channels the box of x that lies shifted by the offset. The copy engine puts zeros where a box leaves
// the image, so images of any size up to 64 columns fit: beside and below them dz is 0.
//
// A block has two warpgroups that multiply and one that asks for copies and leaves them its registers. Each of the two
// has 64 outputs and two column blocks, of 64 channels at one kernel offset.
namespace covnoise::cuda::wide {

/// The sums of a thread, in two halves of a column block each: of the group so far, of all groups, of their squares.
template <bool kSquares>
struct Sums {
  float now[2][kSums / 2], all[kSquares ? kSums : 1], squares[kSquares ? kSums : 1];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      now[i / 32][i % 32] = 0;
      if constexpr (kSquares) all[i] = squares[i] = 0;
    }
  }
  template <int kHalf>
  __device__ void end_group() {
#pragma unroll
    for (int i = 0; i < kSums / 2; ++i) {
      const float sum = now[kHalf][i];
      all[kHalf * 32 + i] += sum;
      squares[kHalf * 32 + i] = fmaf(sum, sum, squares[kHalf * 32 + i]);
    }
  }
  __device__ float total(int i) const { return kSquares ? all[kSquares ? i : 0] : now[i / 32][i % 32]; }
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

/// Where this warpgroup's operands lie in a stage.
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

/// Squares, where they are wanted, are those of units.
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
    // A stage may be filled again when the products that read it are done: those of the chunk before, or of this.
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
/// squared.
template <int kOutputBlocks, int kExampleSteps>
__device__ void work_by_example(Sums<true>& sums, const Work& w, const Share& share,
                                const Stages<kOutputBlocks>& stages) {
  Place<Layout<kOutputBlocks>::kStages> place;
  const auto start = [](float(&half)[kSums / 2], std::uint64_t dz, std::uint64_t x) {
    begin_products();
#pragma unroll
    for (int s = 0; s < kExampleSteps; ++s)
      multiply_64x64(half, dz + s * kDescribedStep, x + s * kDescribedStep, s > 0);
    commit_products();
  };
  constexpr std::uint64_t kHalf = kBoxBytes >> 4, kExample = kExampleSteps * kDescribedStep;
  constexpr int kExamples = kSteps / kExampleSteps;
  for (int chunk = share.begin; chunk < share.end; ++chunk, place.advance()) {
    wait_barrier(stages.full(place.index), place.round);
    const Operands<kOutputBlocks> at(stages.at(place.index));
    start(sums.now[0], at.dz, at.x);
    start(sums.now[1], at.dz, at.x + kHalf);
#pragma unroll
    for (int e = 0; e < kExamples; ++e) {
      const std::uint64_t next = (e + 1) * kExample;
      wait_products<1>();
      sums.template end_group<0>();
      if (e + 1 < kExamples) {
        start(sums.now[0], at.dz + next, at.x + next);
        wait_products<1>();
      } else {
        wait_products<0>();
        stages.release(place.index);
      }
      sums.template end_group<1>();
      if (e + 1 < kExamples) start(sums.now[1], at.dz + next, at.x + kHalf + next);
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

/// Where the sum for an output, channel and kernel offset is: a tile, and a place in its slots.
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

/// Adds the parts of a tile in order, and all tiles to the results [O, C, offsets]. A block has one output and
/// some of 64 channels. The workspace has sums and squares of parts, or, with `group_parts`, sums alone.
template <int kOutputBlocks>
__global__ void __launch_bounds__(kWorkers) add_parts(const __grid_constant__ Work w, bool squares_of_parts) {
  const int output = blockIdx.x, first = blockIdx.y * kSide, channels = min(kSide, w.channels - first);
  const long long target = (static_cast<long long>(output) * w.channels + first) * w.offsets;
  const long long step = squares_of_parts ? 2 * kTileSums : kTileSums;
  const int e = blockIdx.z * kWorkers + threadIdx.x;
  if (e >= channels * w.offsets) return;
  const SumPlace<kOutputBlocks> place(w, output, first + e / w.offsets, e % w.offsets);
  const int parts = place.tile < w.whole_tiles ? 1 : w.parts;
  const float* slot = w.workspace + w.slot(place.tile, 0) * step + place.at;
  float sum = 0, squares = 0;
  if (w.group_parts > 0) {
    for (int part = 0; part < parts; part += w.group_parts) {
      float group = 0;
#pragma unroll 8
      for (int k = 0; k < w.group_parts; ++k, slot += step) group += slot[0];
      sum += group;
      squares = fmaf(group, group, squares);
    }
  } else {
#pragma unroll 8
    for (int part = 0; part < parts; ++part, slot += step) {
      sum += slot[0];
      if (squares_of_parts) squares += slot[kTileSums];
    }
  }
  w.gradient[target + e] += sum;
  if (squares_of_parts || w.group_parts > 0) w.squares[target + e] += squares;
}

}  // namespace covnoise::cuda::wide
