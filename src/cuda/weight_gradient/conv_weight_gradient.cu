#include "cuda/weight_gradient/conv_weight_gradient.h"

#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/wide_weight_gradient.h"
#include "cuda/weight_gradient/conv_weight_gradient_general.cuh"
#include "cuda/weight_gradient/conv_weight_gradient_tiles.cuh"
#include "cuda/weight_gradient/partial_sums.h"
#include "cuda/weight_gradient/parts.h"

#include <algorithm>
#include <cstdint>

namespace covnoise::cuda {
namespace {

using namespace weight_gradient_detail;

constexpr int kMostPositions = 1024;
constexpr double kMostGroupBytes = 384e6;

const std::vector<Compiled>& tiles_for(const WeightGradient& call, Mode mode) {
  if (call.scalar == Scalar::kBFloat16) return bf16_tiles(mode);
  return call.precise ? precise_tiles(mode) : tf32_tiles(mode);
}

/// The tile that wastes least of the tensor cores; null if only the general kernel can do it.
const Compiled* find_tile(const WeightGradient& call, Mode mode) {
  const Convolution& c = call.shape;
  if (c.groups != 1 || c.dilation_height != 1 || c.dilation_width != 1) return nullptr;
  const Compiled* found = nullptr;
  for (const Compiled& tile : tiles_for(call, mode)) {
    if (tile.kernel_width != c.kernel_width) continue;
    if (tile.kernel_rows > 1 && tile.kernel_rows != c.kernel_height) continue;
    found = &tile;
    if (std::min(c.channels, c.outputs) <= std::min(tile.outputs, tile.channels)) break;
  }
  return found;
}

/// Bytes of a stage over its planes. bf16: rows of all planes, in whole kilobytes. float: planes, padded so
/// that neighbours use different banks.
int plane_bytes(int positions, int planes, int element_bytes) {
  if (element_bytes == 2) return divide_up(positions * 16 * planes, 1024) * 1024 / planes;
  return divide_up(positions * 16, 128) * 128 + 64;
}

/// Fills in the chunk and the stage for `examples` examples or `rows` rows, and returns the stage's bytes.
int lay_out(Work& w, const Compiled& tile, bool by_example, int examples, int rows) {
  const bool all_rows = tile.kernel_rows > 1;
  w.chunk_examples = examples;
  w.chunk_rows = rows;
  w.bands = divide_up(w.out_height, rows);
  w.x_rows = all_rows ? (rows - 1) * w.stride_height + w.kernel_height : rows;
  w.x_columns = (w.out_width - 1) * w.stride_width + tile.kernel_width;
  w.example_steps = by_example ? divide_up(rows * w.out_width, 16) : 0;
  w.positions = by_example ? examples * w.example_steps * 16 : divide_up(examples * rows * w.out_width, 16) * 16;
  const int group = 16 / tile.element_bytes;
  w.x_plane = plane_bytes(examples * w.x_rows * w.x_columns, tile.channels / group, tile.element_bytes);
  w.dz_plane = plane_bytes(w.positions, tile.outputs / group, tile.element_bytes);
  w.stage_bytes = w.x_plane * (tile.channels / group) + w.dz_plane * (tile.outputs / group);
  return w.stage_bytes;
}

/// As many examples, or rows of one example, as fit into the budget. False if not even one row fits.
bool plan_chunk(Work& w, const Compiled& tile, bool by_example, int most_examples, int budget) {
  const int limit = (kMostShared - 4 * kMostPositions) / kStages - 1024;
  budget = std::min(budget, limit);
  const auto fits = [&](int examples, int rows, int bytes) {
    return lay_out(w, tile, by_example, examples, rows) <= bytes && w.positions <= kMostPositions;
  };
  if (fits(1, w.out_height, budget)) {
    int examples = 1;
    while (examples < most_examples && fits(examples + 1, w.out_height, budget)) ++examples;
    return fits(examples, w.out_height, limit);
  }
  int rows = w.out_height;
  while (rows > 1 && !fits(1, rows, budget)) --rows;
  return fits(1, divide_up(w.out_height, divide_up(w.out_height, rows)), limit);
}

/// Bytes of one stage: small enough for several blocks per multiprocessor if the tile is small; otherwise all that is
/// left for one block.
int default_budget(const Compiled& tile) {
  const int side = std::max(tile.outputs, tile.channels);
  if (tile.element_bytes == 2 && side == 32 && tile.threads == 384) return 108 * 1024;
  const int kilobytes = side == 16 ? 28 : side == 32 ? 44 : tile.kernel_rows > 1 ? 88 : 50;
  return kilobytes * 1024 * (tile.element_bytes == 4 ? 3 : 2) / 2;
}

struct Plan {
  const Compiled* tile = nullptr;
  Mode mode = Mode::kPartial;
  Launch launch{};
  int components() const { return mode == Mode::kPartial ? 1 : 2; }
  std::size_t floats(const Convolution& c) const {
    return static_cast<std::size_t>(launch.work.slices) * components() * c.weights();
  }
};

void fill_work(Work& w, const WeightGradient& call) {
  const Convolution& c = call.shape;
  w.x = call.x, w.dz = call.dz, w.workspace = static_cast<float*>(call.workspace);
  w.examples = c.examples, w.height = c.height, w.width = c.width, w.channels = c.channels;
  w.out_height = c.out_height(), w.out_width = c.out_width(), w.outputs = c.outputs;
  w.kernel_height = c.kernel_height, w.stride_height = c.stride_height, w.stride_width = c.stride_width;
  w.padding_height = c.padding_height, w.padding_width = c.padding_width;
  w.examples_per_group = call.squares_of == GradientSquares::kGroups ? call.examples_per_group : c.examples;
}

/// Whether TMA can fill the stages: whole groups of 16 bytes, and examples that end with a step.
bool suits_engine(const WeightGradient& call, const Work& w, const Compiled& tile) {
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  return call.scalar == Scalar::kBFloat16 && w.channels % 8 == 0 && w.outputs % 8 == 0 && aligned(w.x) &&
         aligned(w.dz) && (w.example_steps > 0 || w.chunk_rows * w.out_width % 16 == 0) &&
         std::max(w.x_columns, w.x_rows) <= 256 && (tile.kernel_rows > 1 || w.stride_height == 1);
}

/// Lays out chunks for the tile of `mode`; false if none fits.
bool plan_tile(Plan& plan, const WeightGradient& call, Mode mode) {
  plan.mode = mode;
  plan.tile = find_tile(call, mode);
  if (!plan.tile) return false;
  Work& w = plan.launch.work;
  const bool by_example = mode == Mode::kFlush && w.examples_per_group == 1;
  const int most = by_example ? std::min(64, w.examples) : w.examples_per_group;
  const int budget = call.stage_bytes > 0 ? call.stage_bytes : default_budget(*plan.tile);
  if (!plan_chunk(w, *plan.tile, by_example, most, budget)) return false;
  plan.launch.shared_bytes = kStages * w.stage_bytes + 4 * w.positions + 8 * kStages;
  w.engine = suits_engine(call, w, *plan.tile);
  w.dz_box_examples = w.chunk_rows * w.out_width % 16 == 0 ? w.chunk_examples : 1;
  return true;
}

Plan make_plan(const WeightGradient& call) {
  const Convolution& c = call.shape;
  const bool squares = call.squares_of == GradientSquares::kGroups;
  Plan plan;
  Work& w = plan.launch.work;
  fill_work(w, call);
  const int groups = c.examples / w.examples_per_group;
  const Mode first = call.squares_of == GradientSquares::kSpatial ? Mode::kSpatial
                     : squares && w.examples_per_group == 1       ? Mode::kFlush
                                                                  : Mode::kPartial;
  if (!plan_tile(plan, call, first)) {
    plan.tile = nullptr;
    plan.mode = squares ? Mode::kFlush : first;
    w.slices = std::min(squares ? groups : c.examples, 64);
    w.slices_per_group = squares ? 0 : w.slices;
    return plan;
  }
  const auto tiles = [&] {
    return static_cast<long long>(divide_up(c.outputs, plan.tile->outputs)) *
           divide_up(c.channels, plan.tile->channels) * (plan.tile->kernel_rows > 1 ? 1 : c.kernel_height);
  };
  const auto slots = [&] { return plan.tile->occupancy(plan.launch.shared_bytes) * multiprocessors(); };
  // Groups are split among blocks and squared by the second pass; or, if their sums would take too much memory, each
  // block takes whole groups and squares them.
  const double group_bytes = 4.0 * groups * static_cast<double>(c.weights());
  if (first == Mode::kPartial && squares && group_bytes > kMostGroupBytes) plan_tile(plan, call, Mode::kFlush);
  if (plan.mode == Mode::kFlush) {
    w.slices = choose_parts(groups, groups, tiles(), slots());
    w.slices_per_group = 0;
  } else {
    w.slices_per_group = choose_parts(w.examples_per_group, w.examples_per_group, groups * tiles(), slots());
    w.slices = groups * w.slices_per_group;
  }
  plan.launch.grid = dim3(w.slices, static_cast<unsigned>(tiles() / (plan.tile->kernel_rows > 1 ? 1 : c.kernel_height)),
                          plan.tile->kernel_rows > 1 ? 1 : c.kernel_height);
  return plan;
}

/// A 1x1 convolution does not depend on where a position is: several examples of a group become one row of an image,
/// so that even 1x1 images (a linear layer) fill the stages.
WeightGradient folded(WeightGradient call) {
  Convolution& c = call.shape;
  const bool pointwise = c.kernel() == 1 && c.stride_height == 1 && c.stride_width == 1 && c.padding_height == 0 &&
                         c.padding_width == 0 && c.groups == 1;
  if (!pointwise) return call;
  const bool squares = call.squares_of == GradientSquares::kGroups;
  const int positions = c.height * c.width, group = squares ? call.examples_per_group : c.examples;
  if (positions > 128) return call;
  int fold = 1;
  for (int f = 1; f <= group && f * positions <= 128; ++f)
    if (group % f == 0) fold = f;
  c.examples /= fold;
  c.height = 1, c.width = positions * fold;
  if (squares) call.examples_per_group /= fold;
  return call;
}

void check_call(const WeightGradient& call) {
  const Convolution& c = call.shape;
  if (c.examples < 1 || c.out_height() < 1 || c.out_width() < 1)
    throw std::runtime_error("weight gradient: no examples or no output positions");
  if (call.squares_of == GradientSquares::kGroups &&
      (call.examples_per_group < 1 || c.examples % call.examples_per_group != 0))
    throw std::runtime_error("weight gradient: " + std::to_string(c.examples) + " examples are not a whole number of " +
                             "groups of " + std::to_string(call.examples_per_group));
}

}  // namespace

std::size_t weight_gradient_workspace(const WeightGradient& call) {
  check_call(call);
  if (WideWeightGradient::takes(call)) return WideWeightGradient::workspace(call);
  const WeightGradient flat = folded(call);
  return make_plan(flat).floats(flat.shape) * sizeof(float);
}

void weight_gradient(const WeightGradient& given, cudaStream_t stream) {
  check_call(given);
  if (WideWeightGradient::takes(given)) return WideWeightGradient::run(given, stream);
  const WeightGradient call = folded(given);
  const Convolution& c = call.shape;
  Plan plan = make_plan(call);
  if (plan.tile) {
    Work& work = plan.launch.work;
    if (work.engine) {
      const Compiled& tile = *plan.tile;
      work.x_map = tensor_map(Scalar::kBFloat16, call.x, c.examples, c.height, c.width, c.channels,
                              {tile.channels, work.x_columns, work.x_rows, work.chunk_examples});
      work.dz_map = tensor_map(Scalar::kBFloat16, call.dz, c.examples, work.out_height, work.out_width, c.outputs,
                               {tile.outputs, work.out_width, work.chunk_rows, work.dz_box_examples});
    }
    plan.tile->run(plan.launch, stream);
  } else {
    run_general(call, plan.launch.work, plan.mode, stream);
  }
  const Work& w = plan.launch.work;
  const bool one = plan.components() == 2 || call.squares_of == GradientSquares::kNone;
  add_partial_sums(
      {w.workspace, w.slices, one ? 1 : w.slices_per_group, plan.components(), c.kernel(), c.outputs,
       c.channels / c.groups, call.gradient, false, call.squares_of == GradientSquares::kNone ? nullptr : call.squares},
      stream);
}

}  // namespace covnoise::cuda
