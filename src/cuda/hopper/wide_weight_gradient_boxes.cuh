#pragma once
#include "cuda/hopper/tma.cuh"
#include "cuda/types.h"

// How the operands of wide_weight_gradient_kernel.cuh get to shared memory: work is divided among blocks, and four
// warps of each issue the copies of one box after another.
namespace covnoise::cuda::wide {

constexpr int kSide = 64;  // positions, channels and outputs of a box
constexpr int kBoxBytes = kSide * kSide * 2;
constexpr int kSums = 64;  // of a thread
constexpr int kWorkers = 256, kThreads = kWorkers + 128;
constexpr int kTileSums = kWorkers * kSums;

struct Work {
  int outputs, channels, kernel_width, offsets;  // offsets: of the kernel, kernel_height * kernel_width
  int padding_height, padding_width;
  int channel_blocks, column_blocks, column_tiles;  // column_blocks = offsets * channel_blocks
  int chunk_examples, chunk_rows, bands;            // bands of chunk_rows rows make an image
  int units, chunks;                                // a unit is not split among blocks and has this many chunks
  int whole_tiles, parts;                           // tiles done by one block; blocks for each of the other tiles
  int group_parts;                                  // > 0: this many parts make a group, which is squared at the end
  float *gradient, *squares, *workspace;            // workspace: [slot][sum, square][i][thread]
  CUtensorMap x_map, dz_map;

  __host__ __device__ long long slot(int tile, int part) const {
    return tile < whole_tiles ? tile : whole_tiles + static_cast<long long>(tile - whole_tiles) * parts + part;
  }
};

/// The work of a block: a tile of the weight over the units [begin, end).
struct Share {
  int tile, part, begin, end;
  __device__ explicit Share(const Work& w) {
    const int other = static_cast<int>(blockIdx.x) - w.whole_tiles;
    tile = static_cast<int>(blockIdx.x), part = 0, begin = 0, end = w.units;
    if (other < 0) return;
    const int tiles = (static_cast<int>(gridDim.x) - w.whole_tiles) / w.parts;
    tile = w.whole_tiles + other % tiles;  // neighbours read the same examples at the same time
    part = other / tiles;
    begin = static_cast<int>(static_cast<long long>(part) * w.units / w.parts);
    end = static_cast<int>(static_cast<long long>(part + 1) * w.units / w.parts);
  }
};

/// kOutputBlocks blocks of 64 outputs and 4 / kOutputBlocks column blocks per thread block.
template <int kOutputBlocks>
struct Layout {
  static constexpr int kColumnBlocks = 4 / kOutputBlocks;
  static constexpr int kBoxes = kOutputBlocks + kColumnBlocks;
  static constexpr int kStageBytes = kBoxes * kBoxBytes;
  static constexpr int kStages = (kMostShared - 2048) / kStageBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + 16 * kStages + 1024;
};

/// The shared memory of a block: stages, then barriers that count what has arrived and what has been used.
template <int kOutputBlocks>
struct Stages {
  using L = Layout<kOutputBlocks>;
  std::uint32_t base;
  __device__ std::uint32_t at(int index) const { return base + index * L::kStageBytes; }
  __device__ std::uint32_t full(int index) const { return base + L::kStages * L::kStageBytes + 16 * index; }
  __device__ std::uint32_t empty(int index) const { return full(index) + 8; }

  __device__ void init() const {
    if (threadIdx.x < L::kStages) {
      init_barrier(full(threadIdx.x));
      init_barrier(empty(threadIdx.x), kWorkers / 128);
      fence_async_proxy();
    }
  }
  /// This warpgroup has finished reading a stage.
  __device__ void release(int index) const {
    if (threadIdx.x % 128 == 0) arrive(empty(index));
  }
};

/// A position in the ring of stages.
template <int kStages>
struct Place {
  int index = 0;
  std::uint32_t round = 0;
  __device__ void advance() {
    if (++index == kStages) index = 0, round ^= 1;
  }
};

/// One box of every chunk: its offset from the chunk's first position.
struct BoxSource {
  const CUtensorMap* map;
  int channel, column, row;

  template <int kOutputBlocks>
  __device__ static BoxSource of(const Work& w, const Share& share, int box) {
    if (box < kOutputBlocks) return {&w.dz_map, (share.tile / w.column_tiles * kOutputBlocks + box) * kSide, 0, 0};
    const int block = share.tile % w.column_tiles * (4 / kOutputBlocks) + box - kOutputBlocks;
    const int offset = block / w.channel_blocks;
    return {&w.x_map, block % w.channel_blocks * kSide, offset % w.kernel_width - w.padding_width,
            offset / w.kernel_width - w.padding_height};
  }
};

/// Issues the copies of one chunk after another. The rate at which one thread can issue them would limit the kernel:
/// each of four warps issues one or two boxes, in a loop without divisions.
template <int kOutputBlocks>
__device__ void bring(const Work& w, const Share& share, const Stages<kOutputBlocks>& stages, int warp) {
  using L = Layout<kOutputBlocks>;
  const bool two = warp + 4 < L::kBoxes;
  const auto one = BoxSource::of<kOutputBlocks>(w, share, warp);
  const auto other = BoxSource::of<kOutputBlocks>(w, share, two ? warp + 4 : warp);
  const int first = share.begin * w.chunks;
  int example = first / w.bands * w.chunk_examples, band = first % w.bands, row = band * w.chunk_rows;
  Place<L::kStages> place;
  for (int left = (share.end - share.begin) * w.chunks; left > 0; --left, place.advance()) {
    const std::uint32_t full = stages.full(place.index), target = stages.at(place.index) + warp * kBoxBytes;
    wait_barrier(stages.empty(place.index), place.round ^ 1);
    if (warp == 0) expect_bytes(full, L::kStageBytes);
    copy_box(target, *one.map, full, one.channel, one.column, row + one.row, example);
    if (two) copy_box(target + 4 * kBoxBytes, *other.map, full, other.channel, other.column, row + other.row, example);
    row += w.chunk_rows;
    if (++band == w.bands) band = 0, row = 0, example += w.chunk_examples;
  }
}

}  // namespace covnoise::cuda::wide
