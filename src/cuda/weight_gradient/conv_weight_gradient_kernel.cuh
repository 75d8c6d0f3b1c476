#pragma once
#include "cuda/hopper/tma.cuh"
#include "cuda/staging.cuh"
#include "cuda/types.h"
#include "cuda/weight_gradient/conv_weight_gradient_products.cuh"

// The tensor core kernel of conv_weight_gradient.h. As a product: rows are outputs, columns are input channels, once
// for each kernel offset, and the sum runs over positions, 16 at a time. Both operands are staged in their memory
// layout and loaded transposed; an offset of the kernel is a distance in the stage.
namespace covnoise::cuda::weight_gradient_detail {

struct Work {
  const void *x, *dz;
  float* workspace;  ///< [slice][sum, squares][kh][kw][O][C]
  int examples, height, width, channels, out_height, out_width, outputs;
  int kernel_height, stride_height, stride_width, padding_height, padding_width;
  int examples_per_group, slices, slices_per_group;  ///< kPartial: slices of a group; otherwise groups of a slice vary
  int chunk_examples, chunk_rows, bands;             ///< a chunk is some examples, or a band of one example's rows
  int example_steps;                                 ///< > 0: examples start at multiples of 16 positions (exact)
  int positions;                                     ///< of a chunk, a multiple of 16
  int x_rows, x_columns, x_plane, dz_plane;          ///< the stage; bytes of it over the number of planes
  int stage_bytes;
  bool engine;          ///< whether TMA fills the stages (bf16)
  int dz_box_examples;  ///< examples in a box of dz: one where there are gaps between them
  CUtensorMap x_map, dz_map;
};

struct Launch {
  Work work;
  dim3 grid;
  int shared_bytes;
};

constexpr int kStages = 2;

/// The work of one slice: chunks of its examples, in order.
struct Slice {
  int begin, end;  ///< examples

  __device__ Slice(const Work& w, int index) {
    const int groups = w.examples / w.examples_per_group;
    if (w.slices_per_group > 0) {
      const int group = index / w.slices_per_group, part = index % w.slices_per_group, size = w.examples_per_group;
      begin = group * size + static_cast<int>(static_cast<long long>(part) * size / w.slices_per_group);
      end = group * size + static_cast<int>(static_cast<long long>(part + 1) * size / w.slices_per_group);
    } else {
      begin = static_cast<int>(static_cast<long long>(index) * groups / w.slices) * w.examples_per_group;
      end = static_cast<int>(static_cast<long long>(index + 1) * groups / w.slices) * w.examples_per_group;
    }
  }
};

struct Chunk {
  int example, band;

  __device__ int examples(const Work& w, const Slice& slice) const {
    int most = slice.end - example;
    if (w.example_steps == 0) most = min(most, w.examples_per_group - example % w.examples_per_group);
    return min(most, w.chunk_examples);
  }
  __device__ void advance(const Work& w, const Slice& slice) {
    if (++band < w.bands) return;
    band = 0;
    example += examples(w, slice);
  }
};

/// Bytes from one staged position to the next.
template <class Tile>
constexpr int kXRow = sizeof(typename Tile::Type) == 2 ? 16 * Tile::kCPlanes : 16;

/// Where a lane reads, relative to the stage's x and dz.
template <class Tile>
struct Lane {
  std::uint32_t x, group;      ///< bf16: the kernel row's shift, and 16 times the first group of channels
  std::uint32_t dz[Tile::kM];  ///< float: only the first

  __device__ Lane(const Work& w, int kernel_row, int warp_o, int warp_c) {
    const int lane = threadIdx.x % 32;
    x = Tile::kRows > 1 ? kernel_row * w.x_columns * kXRow<Tile> : 0;
    group = (warp_c * Tile::kN + lane / 16) * 16;
    if constexpr (sizeof(typename Tile::Type) == 2) {
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m)
        dz[m] = swizzled<Tile::kOPlanes>((lane / 16 * 8 + lane % 8) * 16 * Tile::kOPlanes,
                                         ((warp_o * Tile::kM + m) * 2 + lane / 8 % 2) * 16);
    } else {
      x += (warp_c * Tile::kN * 2 + lane / 16) * w.x_plane + lane / 4 % 4 * 4;
      dz[0] = (warp_o * Tile::kM * 4 + lane / 16) * w.dz_plane + lane / 4 % 4 * 4 + lane % 4 * 16;
    }
  }
};

template <class Tile>
struct Block {
  const Work& w;
  char* shared;  ///< stages, then the table of positions
  std::uint32_t base;
  int kernel_row, first_output, first_channel;

  __device__ Patch x_patch(const Slice& slice, const Chunk& chunk) const {
    const bool all_rows = Tile::kRows > 1;
    const int row = chunk.band * w.chunk_rows * w.stride_height - w.padding_height + (all_rows ? 0 : kernel_row);
    return {w.x,
            w.height,
            w.width,
            w.channels,
            first_channel,
            chunk.example,
            chunk.examples(w, slice),
            w.chunk_examples,
            row,
            all_rows ? 1 : w.stride_height,
            w.x_rows,
            w.height,
            -w.padding_width,
            w.x_columns,
            w.x_rows * w.x_columns};
  }
  __device__ Patch dz_patch(const Slice& slice, const Chunk& chunk) const {
    const int example_positions = w.example_steps > 0 ? 16 * w.example_steps : w.chunk_rows * w.out_width;
    return {w.dz,
            w.out_height,
            w.out_width,
            w.outputs,
            first_output,
            chunk.example,
            chunk.examples(w, slice),
            w.chunk_examples,
            chunk.band * w.chunk_rows,
            1,
            w.chunk_rows,
            w.out_height,
            0,
            w.out_width,
            example_positions};
  }
  /// The barriers of the stages, after the table.
  __device__ std::uint32_t barrier(int stage_index) const {
    return base + kStages * w.stage_bytes + 4 * w.positions + 8 * stage_index;
  }
  __device__ void load_boxes(const Chunk& chunk, int stage_index) const {
    if (threadIdx.x != 0) return;
    const std::uint32_t x_at = base + stage_index * w.stage_bytes, at = barrier(stage_index);
    const int row = chunk.band * w.chunk_rows;
    expect_bytes(at,
                 2 * w.chunk_examples * (Tile::kC * w.x_rows * w.x_columns + Tile::kO * w.chunk_rows * w.out_width));
    copy_box(x_at, w.x_map, at, first_channel, -w.padding_width,
             row * w.stride_height - w.padding_height + (Tile::kRows > 1 ? 0 : kernel_row), chunk.example);
    const int dz_step = 16 * w.example_steps * 16 * Tile::kOPlanes;
    for (int e = 0; e < w.chunk_examples; e += w.dz_box_examples)
      copy_box(x_at + Tile::kCPlanes * w.x_plane + e * dz_step, w.dz_map, at, first_output, 0, row, chunk.example + e);
  }
  __device__ void load(const Slice& slice, const Chunk& chunk, int stage_index) const {
    if constexpr (sizeof(typename Tile::Type) == 2) {
      if (w.engine) return load_boxes(chunk, stage_index);
    }
    const int x_at = stage_index * w.stage_bytes, dz_at = x_at + Tile::kCPlanes * w.x_plane;
    using T = typename Tile::Type;
    stage<T, Tile::kCPlanes>(x_patch(slice, chunk), base + x_at, shared + x_at, w.x_plane);
    stage<T, Tile::kOPlanes>(dz_patch(slice, chunk), base + dz_at, shared + dz_at, w.dz_plane);
  }
  __device__ int* table() const { return reinterpret_cast<int*>(shared + kStages * w.stage_bytes); }

  /// Byte offset of each position's input; padding positions point to the first.
  __device__ void fill_table() const {
    const int row_step = Tile::kRows > 1 ? w.stride_height : 1, band = w.chunk_rows * w.out_width;
    const int example_positions = w.example_steps > 0 ? 16 * w.example_steps : band;
    for (int p = threadIdx.x; p < w.positions; p += Tile::kThreads) {
      const int e = min(p / example_positions, w.chunk_examples - 1), t = p - e * example_positions;
      const int row = t / w.out_width, column = t % w.out_width;
      const int at = t < band ? row * row_step * w.x_columns + column * w.stride_width : 0;
      table()[p] = (e * w.x_rows * w.x_columns + at) * kXRow<Tile>;
    }
  }
};

/// All steps of a chunk. After each `flush_steps` of them, if not 0, a group of examples ends.
template <class Tile>
__device__ __forceinline__ void run_steps(Accumulators<Tile>& a, const Work& w, const int* table, const Lane<Tile>& at,
                                          std::uint32_t x, std::uint32_t dz, int steps, int flush_steps, bool& fresh) {
  const int lane = threadIdx.x % 32;
  int until_flush = flush_steps;
  const auto after_step = [&] {
    fresh = false;
    if constexpr (Tile::mode == Mode::kFlush) {
      if (--until_flush == 0) a.flush(), fresh = true, until_flush = flush_steps;
    }
  };
  x += at.x;
  if constexpr (sizeof(typename Tile::Type) == 2) {
    constexpr int kDzStep = 256 * Tile::kOPlanes;  // bytes of 16 positions
    Fragments<Tile> now, next;
    table += lane % 16;
    int row = table[0];
    if constexpr (Tile::kAhead) {
      now.load(x + row, at.group, dz, at.dz);
      row = table[min(1, steps - 1) * 16];
    }
#pragma unroll 2
    for (int s = 0; s < steps; ++s) {
      const int step = Tile::kAhead ? min(s + 1, steps - 1) : s;
      const int this_row = row;
      row = table[min(step + 1, steps - 1) * 16];
      (Tile::kAhead ? next : now).load(x + this_row, at.group, dz + step * kDzStep, at.dz);
      if (Tile::mode == Mode::kFlush && fresh)
        now.template multiply<true>(a);
      else
        now.template multiply<false>(a);
      after_step();
      if constexpr (Tile::kAhead) now = next;
    }
  } else {
    table += lane % 4;
    dz += at.dz[0];
    for (int s = 0; s < steps; ++s, table += 16, dz += 256) {
      if (Tile::mode == Mode::kFlush && fresh)
        step_float<Tile, true>(a, x + table[0], x + table[4], dz, w.x_plane, w.dz_plane);
      else
        step_float<Tile, false>(a, x + table[0], x + table[4], dz, w.x_plane, w.dz_plane);
      step_float<Tile, false>(a, x + table[8], x + table[12], dz + 128, w.x_plane, w.dz_plane);
      after_step();
    }
  }
}

template <class Tile>
__device__ __forceinline__ void store(const Accumulators<Tile>& a, const Work& w, int kernel_row, int output,
                                      int channel) {
  const int lane = threadIdx.x % 32;
  const long long plane = static_cast<long long>(w.outputs) * w.channels;
  const long long weights = plane * w.kernel_height * Tile::kWidth;
  float* target = w.workspace + blockIdx.x * weights * (Tile::mode == Mode::kPartial ? 1 : 2);
  Accumulators<Tile>::for_each([&](int f, int m, int n, int i) {
    const int o = output + m * 16 + lane / 4 + (i / 2) * 8, c = channel + n * 8 + (lane % 4) * 2 + i % 2;
    if (o >= w.outputs || c >= w.channels) return;
    const long long at = (kernel_row * Tile::kWidth + f) * plane + static_cast<long long>(o) * w.channels + c;
    if constexpr (Tile::mode == Mode::kFlush)
      target[at] = a.sum[f][m][n][i];
    else
      target[at] = a.acc[f][m][n][i];
    if constexpr (Tile::mode != Mode::kPartial) target[weights + at] = a.squares[f][m][n][i];
  });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) kernel(const __grid_constant__ Work w) {
  extern __shared__ __align__(1024) char shared[];
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / (Tile::kWarpsInO * Tile::kWarpsInC), warp_o = warp / Tile::kWarpsInC % Tile::kWarpsInO,
            warp_c = warp % Tile::kWarpsInC;
  const int tiles_c = (w.channels + Tile::kC - 1) / Tile::kC;
  const int kernel_row = Tile::kRows > 1 ? warp_row : blockIdx.z;
  const Block<Tile> block{w,
                          shared,
                          shared_address(shared),
                          kernel_row,
                          static_cast<int>(blockIdx.y) / tiles_c * Tile::kO,
                          static_cast<int>(blockIdx.y) % tiles_c * Tile::kC};
  if (w.engine && threadIdx.x < kStages) init_barrier(block.barrier(threadIdx.x));
  if (!w.engine || w.chunk_rows * w.out_width % 16 != 0) clear_stages(shared, kStages * w.stage_bytes);
  fence_async_proxy();
  block.fill_table();
  __syncthreads();

  const Lane<Tile> lane(w, kernel_row, warp_o, warp_c);
  const Slice slice(w, blockIdx.x);
  Chunk chunk{slice.begin, 0}, ahead = chunk;
  Accumulators<Tile> a;
  a.clear();
  if (ahead.example < slice.end) block.load(slice, ahead, 0);
  commit_copies();
  bool fresh = true;
  for (int index = 0; chunk.example < slice.end; ++index) {
    if (w.engine)
      wait_barrier(block.barrier(index % kStages), index / kStages % 2);
    else
      wait_copies<0>();
    const int at = index % kStages * w.stage_bytes;
    __syncthreads();
    ahead.advance(w, slice);
    if (ahead.example < slice.end) block.load(slice, ahead, (index + 1) % kStages);
    commit_copies();

    const std::uint32_t x = block.base + at, dz = x + Tile::kCPlanes * w.x_plane;
    const int examples = chunk.examples(w, slice);
    const int steps =
        w.example_steps > 0 ? examples * w.example_steps : (examples * w.chunk_rows * w.out_width + 15) / 16;
    const bool ends = chunk.band + 1 == w.bands && (chunk.example + examples) % w.examples_per_group == 0;
    run_steps<Tile>(a, w, block.table(), lane, x, dz, steps,
                    !ends                 ? 0
                    : w.example_steps > 0 ? w.example_steps
                                          : steps,
                    fresh);
    chunk = ahead;
  }
  store<Tile>(a, w, kernel_row, block.first_output + warp_o * Tile::kM * 16,
              block.first_channel + warp_c * Tile::kN * 8);
}

template <class Tile>
int occupancy(int shared_bytes) {
  return occupancy_of(reinterpret_cast<const void*>(kernel<Tile>), Tile::kThreads, shared_bytes);
}

template <class Tile>
void run(const Launch& launch, cudaStream_t stream) {
  kernel<Tile><<<launch.grid, Tile::kThreads, launch.shared_bytes, stream>>>(launch.work);
  check_launch("weight gradient");
}

/// What the plan needs to know about a compiled tile.
struct Compiled {
  int outputs, channels, kernel_width, kernel_rows;
  int element_bytes, threads;
  int (*occupancy)(int shared_bytes);
  void (*run)(const Launch& launch, cudaStream_t stream);
};

template <class Tile>
Compiled compiled() {
  return {Tile::kO,       Tile::kC,        Tile::kWidth, Tile::kRows, static_cast<int>(sizeof(typename Tile::Type)),
          Tile::kThreads, occupancy<Tile>, run<Tile>};
}

}  // namespace covnoise::cuda::weight_gradient_detail
