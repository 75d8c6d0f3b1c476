#include "ops/weight_gradient/weight_gradient_plan.h"

#include <algorithm>

namespace covnoise::weight_gradient {
namespace {

constexpr std::int64_t kPackedSize = 1 << 17;      // positions x channels in a chunk: half of an L2 cache
constexpr std::int64_t kPartialWeights = 1 << 19;  // bound on the slices' partial sums
constexpr std::int64_t kTileRows = kMaxRows;
constexpr std::int64_t kFewTasks = 4;
constexpr std::int64_t kTasks = 32;  // enough to balance the threads

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Range {
  std::int64_t first, count;
};

/// 0..size in the fewest ranges of at most `most`, as equal as multiples of `unit` can be.
std::vector<Range> split(std::int64_t size, std::int64_t most, std::int64_t unit) {
  const std::int64_t pieces = divide_up(size, most), units = divide_up(size, unit);
  std::vector<Range> ranges;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = i * units / pieces * unit, end = std::min(size, (i + 1) * units / pieces * unit);
    ranges.push_back({first, end - first});
  }
  return ranges;
}

/// The widest panels first; what remains goes into the narrowest that holds it.
std::vector<Panel> make_panels(std::int64_t outputs, std::int64_t lanes, std::int64_t half) {
  std::vector<Panel> panels;
  std::int64_t first = 0, offset = 0;
  while (first < outputs) {
    const std::int64_t left = outputs - first;
    const bool two = left >= 2 * lanes || left > lanes + half;
    const PanelKind kind = two ? kTwoVectors : left <= half ? kHalfVector : kOneVector;
    const std::int64_t width = two ? 2 * lanes : left <= half ? half : lanes;
    panels.push_back({first, std::min(left, width), width, offset, kind});
    first += width;
    offset += width;
  }
  return panels;
}

void add_runs(Part& part, const Convolution& c, bool wide_rows) {
  std::int64_t row = 0;
  part.weight_row.resize(part.rows);
  for (std::size_t b = 0; b < part.blocks.size(); ++b) {
    const ChannelBlock& block = part.blocks[b];
    for (std::int64_t i = 0; i < c.kernel_height; ++i)
      for (std::int64_t j = 0; j < c.kernel_width; ++j) {
        if (!wide_rows || j == 0)
          part.runs.push_back(
              {static_cast<std::int64_t>(b), row, block.count * (wide_rows ? c.kernel_width : 1), i, j});
        for (std::int64_t channel = block.first; channel < block.first + block.count; ++channel)
          part.weight_row[row++] = (channel * c.kernel_height + i) * c.kernel_width + j;
      }
  }
}

Part make_part(const Plan& plan, std::int64_t group, Range outputs, Range channels, std::int64_t lanes,
               std::int64_t half_lanes) {
  const Convolution& c = plan.convolution;
  Part part{};
  part.group = group;
  part.first_output = outputs.first, part.outputs = outputs.count;
  part.first_channel = channels.first, part.channels = channels.count;
  part.rows = channels.count * c.kernel();
  part.panels = make_panels(outputs.count, lanes, half_lanes);
  part.panel_widths = part.panels.back().offset + part.panels.back().width;
  for (std::int64_t first = 0; first < channels.count; first += kTileRows)
    part.blocks.push_back({first, std::min(kTileRows, channels.count - first)});
  add_runs(part, c, plan.wide_rows);
  return part;
}

Chunk make_chunk(const Convolution& c, std::int64_t examples_per_group, std::int64_t side) {
  const std::int64_t positions = c.positions(), chunk_positions = kPackedSize / (2 * side);
  if (positions * examples_per_group <= chunk_positions)
    return {chunk_positions / (positions * examples_per_group), examples_per_group, c.out_height};
  if (positions <= chunk_positions) return {0, chunk_positions / positions, c.out_height};
  const std::int64_t most_rows = std::max<std::int64_t>(1, chunk_positions / c.out_width);
  return {0, 1, divide_up(c.out_height, divide_up(c.out_height, most_rows))};
}

}  // namespace

Plan make_plan(const Convolution& c, std::int64_t examples_per_group, bool transposed, std::int64_t lanes,
               std::int64_t half_lanes) {
  Plan plan{};
  plan.convolution = c;
  plan.examples_per_group = examples_per_group;
  plan.transposed = transposed;
  plan.slices = 1;
  // Fewer channels than a tile has rows: take neighbouring columns as rows too. They must be neighbours in memory.
  plan.wide_rows = c.channels < kTileRows && c.kernel_width > 1 && c.dilation_width == 1;
  // Each part packs both of its operands, so parts are large; large kernels make the weight large enough.
  const std::int64_t side = c.kernel() == 1 ? 256 : 128;
  plan.chunk = make_chunk(c, examples_per_group, side);
  std::int64_t output_side = std::min(side, c.outputs), channel_side = std::min(side, c.channels);
  const auto tasks = [&] {  // an upper bound: one slice per group of examples
    return c.groups * divide_up(c.outputs, output_side) * divide_up(c.channels, channel_side) * plan.example_groups();
  };
  // A batch of few groups has few slices: parts are then smaller, down to one tile, so that there are enough tasks.
  while (tasks() < kFewTasks && channel_side > kTileRows)
    channel_side = divide_up(channel_side, 2 * kTileRows) * kTileRows;
  while (tasks() < kFewTasks && output_side > 2 * lanes) output_side = divide_up(output_side, 4 * lanes) * 2 * lanes;
  for (std::int64_t group = 0; group < c.groups; ++group)
    for (const Range& outputs : split(c.outputs, output_side, 2 * lanes))
      for (const Range& channels : split(c.channels, channel_side, kTileRows)) {
        plan.parts.push_back(make_part(plan, group, outputs, channels, lanes, half_lanes));
        plan.parts.back().offset = plan.packed_size;
        plan.packed_size += plan.parts.back().size();
      }
  const std::int64_t parts = plan.parts.size();
  const std::int64_t partial_weights =
      parts < kFewTasks ? kPartialWeights : kPartialWeights / 2;  // parts are tasks too
  const std::int64_t affordable = std::min(divide_up(kTasks, parts), partial_weights / plan.packed_size);
  while (2 * plan.slices <= std::min(affordable, plan.example_groups())) plan.slices *= 2;
  return plan;
}

}  // namespace covnoise::weight_gradient
