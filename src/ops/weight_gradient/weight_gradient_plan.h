#pragma once
#include "ops/weight_gradient/weight_gradient_kernels.h"

#include <cstdint>
#include <vector>

namespace covnoise::weight_gradient {

/// A convolution of x [examples, groups * channels, height, width] to [examples, groups * outputs, out_height,
/// out_width]; `channels` and `outputs` are those of one group.
struct Convolution {
  std::int64_t examples, channels, outputs, groups;
  std::int64_t height, width, out_height, out_width;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_height, stride_width, padding_height, padding_width, dilation_height, dilation_width;

  std::int64_t kernel() const { return kernel_height * kernel_width; }
  std::int64_t positions() const { return out_height * out_width; }
  /// A linear layer, or the same as one.
  bool is_linear() const { return groups * kernel() * height * width * positions() == 1; }
};

/// Outputs [first, first + count) of a part, packed as [position][width] with zeros after `count`.
struct Panel {
  std::int64_t first, count, width, offset;  ///< offset: sum of the widths before it
  PanelKind kind;
};

/// Channels [first, first + count) of a part, packed as [row][column][channel].
struct ChannelBlock {
  std::int64_t first, count;
};

/// `length` rows of the weight that share their output positions: the channels of a block at one offset of the kernel,
/// or, in a part of few channels, at all offsets of one kernel row (neighbours in the packed x).
struct Run {
  std::int64_t block, row, length;
  std::int64_t kernel_row, kernel_column;
};

/// A range of outputs and channels of the weight that one task works on. Its packed weight is, panel by panel,
/// [rows][width of the panel].
struct Part {
  std::int64_t group, first_output, outputs, first_channel, channels;
  std::int64_t rows;          ///< channels * kernel
  std::int64_t panel_widths;  ///< sum over the panels
  std::int64_t offset;        ///< of its packed weight in that of all parts
  std::vector<Panel> panels;
  std::vector<ChannelBlock> blocks;
  std::vector<Run> runs;
  std::vector<std::int64_t> weight_row;  ///< [rows]: row -> index in [channels, kernel] of this part
  std::int64_t size() const { return rows * panel_widths; }
};

/// What is packed at once, small enough to stay in the L2 cache.
struct Chunk {
  std::int64_t groups;    ///< whole groups of examples; 0 if one is too large,
  std::int64_t examples;  ///< then examples of a group,
  std::int64_t rows;      ///< and rows of the output, fewer than all only if examples == 1
};

/// How the work is divided: each task is a part of the weight and a slice of the examples. Depends only on the sizes,
/// so that the result does not depend on the number of threads.
struct Plan {
  Convolution convolution;
  std::int64_t examples_per_group;
  bool transposed;  ///< the weight is [channels, outputs]: of a linear layer whose operands are swapped
  std::int64_t slices;
  std::int64_t packed_size;  ///< of the packed weights of all parts
  bool wide_rows;            ///< a run is a whole kernel row, and columns of x are packed with their padding
  Chunk chunk;
  std::vector<Part> parts;

  std::int64_t example_groups() const { return convolution.examples / examples_per_group; }
  std::int64_t packed_columns() const { return convolution.width + (wide_rows ? 2 * convolution.padding_width : 0); }
};

Plan make_plan(const Convolution& convolution, std::int64_t examples_per_group, bool transposed, std::int64_t lanes,
               std::int64_t half_lanes);

}  // namespace covnoise::weight_gradient
