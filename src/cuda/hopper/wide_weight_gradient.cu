#include "cuda/hopper/wide_weight_gradient.h"

#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/wide_weight_gradient_kernel.cuh"
#include "cuda/weight_gradient/parts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace covnoise::cuda {
namespace {

using namespace wide;

int power_of_two_from(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

/// The box of positions of one chunk: columns * rows * examples = 64.
Box chunk_of(const WeightGradient& call) {
  const Convolution& c = call.shape;
  const bool exact = call.squares_of == GradientSquares::kGroups && call.examples_per_group == 1;
  int columns = power_of_two_from(c.out_width()), rows = power_of_two_from(c.out_height());
  if (exact) {  // an example is 16 positions, or whole chunks
    while (columns * rows < 16) (columns <= rows ? columns : rows) *= 2;
    if (columns * rows == 32) rows *= 2;
  }
  rows = std::min(rows, std::max(kSide / columns, 1));
  return {kSide, columns, rows, kSide / (columns * rows)};
}

bool hopper() {
  static const bool yes = [] {
    int device = 0, major = 0, minor = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "compute capability");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "compute capability");
    return major == 9 && minor == 0;
  }();
  return yes;
}

int output_blocks(const Convolution& c) { return c.outputs <= kSide ? 1 : 2; }

int tiles_of(const Convolution& c, const Work& w) {
  return divide_up(c.outputs, kSide * output_blocks(c)) * w.column_tiles;
}

/// Divides `groups` groups of `chunks` chunks among blocks, for every tile. Blocks either take whole groups and square
/// their sums, or parts of groups, which the second pass adds up and squares: that keeps all multiprocessors busy when
/// there are few tiles, but the sums of every part pass through memory. Times are in units of a chunk's.
void share_groups(Work& w, int tiles, int groups, int chunks) {
  constexpr int kMostParts = 8;
  const int places = multiprocessors(), others = tiles - w.whole_tiles;
  constexpr double kStore = 8, kAdd = 0.03;  // a block's store of its sums, and another read of them by all
  const auto blocks_time = [&](int parts, int part_chunks) {
    return std::ceil(static_cast<double>(others) * parts / places) * (part_chunks + kStore) + kAdd * others * parts;
  };
  double best = blocks_time(w.parts, divide_up(groups, w.parts) * chunks);
  for (int q = 1; w.whole_tiles == 0 && q <= std::min(kMostParts, chunks / w.bands); ++q) {
    const double time = blocks_time(groups * q, divide_up(chunks, q));
    if (time < best) best = time, w.group_parts = q;
  }
  if (w.group_parts == 0) return;
  w.parts = groups * w.group_parts;
  w.units = groups * chunks / w.bands, w.chunks = w.bands;
}

Work plan(const WeightGradient& call) {
  const Convolution& c = call.shape;
  const Box box = chunk_of(call);
  Work w{};
  w.outputs = c.outputs, w.channels = c.channels, w.kernel_width = c.kernel_width, w.offsets = c.kernel();
  w.padding_height = c.padding_height, w.padding_width = c.padding_width;
  w.channel_blocks = divide_up(c.channels, kSide), w.column_blocks = w.channel_blocks * c.kernel();
  w.column_tiles = divide_up(w.column_blocks, 4 / output_blocks(c));
  w.chunk_examples = box.examples, w.chunk_rows = box.rows, w.bands = divide_up(c.out_height(), box.rows);
  const bool squares = call.squares_of == GradientSquares::kGroups;
  const int unit_examples = squares ? std::max(box.examples, call.examples_per_group) : box.examples;
  w.units = divide_up(c.examples, unit_examples);
  w.chunks = unit_examples / box.examples * w.bands;
  const int tiles = tiles_of(c, w), places = multiprocessors();
  w.whole_tiles = tiles / places * places;
  w.parts = w.whole_tiles == tiles ? 1 : choose_parts(w.units, w.units, tiles - w.whole_tiles, places);
  if (squares && call.examples_per_group > 1) share_groups(w, tiles, w.units, w.chunks);
  w.gradient = call.gradient, w.squares = call.squares, w.workspace = static_cast<float*>(call.workspace);
  return w;
}

/// Blocks of the kernel; each has a slot of the workspace.
int blocks_of(const Convolution& c, const Work& w) {
  return w.whole_tiles + (tiles_of(c, w) - w.whole_tiles) * w.parts;
}

template <int kOutputBlocks, Squares kSquares>
void launch(const Convolution& c, const Work& w, cudaStream_t stream) {
  constexpr int kBytes = Layout<kOutputBlocks>::kSharedBytes;
  occupancy_of(reinterpret_cast<const void*>(kernel<kOutputBlocks, kSquares>), kThreads, kBytes);
  kernel<kOutputBlocks, kSquares><<<blocks_of(c, w), kThreads, kBytes, stream>>>(w);
  check_launch("wide weight gradient");
  const AddBlock block(w.offsets);
  const dim3 grid(c.outputs / kAddSide, divide_up(c.channels, block.spans * kAddSide));
  add_parts<kOutputBlocks><<<grid, 32 * block.warps, block.bytes, stream>>>(w, block.spans, kSquares != Squares::kNone);
  check_launch("wide weight gradient, parts");
}

template <int kOutputBlocks>
void launch(const WeightGradient& call, const Work& w, cudaStream_t stream) {
  const Convolution& c = call.shape;
  if (call.squares_of == GradientSquares::kNone || w.group_parts > 0)
    return launch<kOutputBlocks, Squares::kNone>(c, w, stream);
  if (call.examples_per_group == 1 && w.bands == 1)
    return w.chunk_examples > 1 ? launch<kOutputBlocks, Squares::kExamplesOf16>(c, w, stream)
                                : launch<kOutputBlocks, Squares::kExamplesOf64>(c, w, stream);
  launch<kOutputBlocks, Squares::kGroups>(c, w, stream);
}

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

/// Whether blocks of 64 waste little of n.
bool fills_blocks(int n) { return n >= kSide && n * 10 >= divide_up(n, kSide) * kSide * 7; }

}  // namespace

bool WideWeightGradient::takes(const WeightGradient& call) {
  const Convolution& c = call.shape;
  if (call.stage_bytes > 0) return false;  // tunes the other kernel
  if (call.scalar != Scalar::kBFloat16 || call.squares_of == GradientSquares::kSpatial) return false;
  if (c.groups != 1 || c.stride_height * c.stride_width * c.dilation_height * c.dilation_width != 1) return false;
  if (c.channels % 8 != 0 || c.outputs % 8 != 0 || !fills_blocks(c.channels) || !fills_blocks(c.outputs)) return false;
  if (c.out_width() > kSide || !aligned(call.x) || !aligned(call.dz) || !hopper()) return false;
  const Box box = chunk_of(call);
  const bool groups = call.squares_of == GradientSquares::kGroups && call.examples_per_group > 1;
  return !groups || call.examples_per_group % box.examples == 0;
}

std::size_t WideWeightGradient::workspace(const WeightGradient& call) {
  const Work w = plan(call);
  const std::size_t components = call.squares_of == GradientSquares::kNone || w.group_parts > 0 ? 1 : 2;
  return sizeof(float) * components * kTileSums * blocks_of(call.shape, w);
}

void WideWeightGradient::run(const WeightGradient& call, cudaStream_t stream) {
  const Convolution& c = call.shape;
  const Box box = chunk_of(call);
  Work w = plan(call);
  w.x_map = tensor_map(Scalar::kBFloat16, call.x, c.examples, c.height, c.width, c.channels, box);
  w.dz_map = tensor_map(Scalar::kBFloat16, call.dz, c.examples, c.out_height(), c.out_width(), c.outputs, box);
  if (output_blocks(c) == 1)
    launch<1>(call, w, stream);
  else
    launch<2>(call, w, stream);
}

}  // namespace covnoise::cuda
