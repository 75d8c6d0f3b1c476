#include "ops/weight_gradient_worker.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace covnoise::weight_gradient {
namespace {

struct Span {
  std::int64_t begin, end;
};

/// Outputs o of begin <= o < end, of which o * stride + shift is an index below `size`.
Span inside(std::int64_t begin, std::int64_t end, std::int64_t stride, std::int64_t shift, std::int64_t size) {
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t last = size - shift <= 0 ? 0 : (size - shift + stride - 1) / stride;
  return {std::max(begin, first), std::min(end, last)};
}

}  // namespace

template <typename T>
void Worker<T>::Free::operator()(T* pointer) const {
  std::free(pointer);
}

template <typename T>
typename Worker<T>::Buffer Worker<T>::allocate(std::int64_t size) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = (size * sizeof(T) + kAlignment) / kAlignment * kAlignment;
  void* pointer = std::aligned_alloc(kAlignment, bytes);
  if (pointer == nullptr) throw std::bad_alloc();
  return Buffer(static_cast<T*>(pointer));
}

template <typename T>
Worker<T>::Worker(const Plan& plan, const Kernels<T>& kernels, const T* x, const T* dz, bool square_operands)
    : plan_(plan), kernels_(kernels), x_(x), dz_(dz), square_operands_(square_operands) {
  const Convolution& c = plan.convolution;
  const Chunk& chunk = plan.chunk;
  const std::int64_t examples = std::max<std::int64_t>(1, chunk.groups) * chunk.examples;
  const std::int64_t reach = (chunk.rows - 1) * c.stride_height + (c.kernel_height - 1) * c.dilation_height + 1;
  std::int64_t channels = 0, widths = 0, size = 0;
  for (const Part& part : plan.parts) {
    channels = std::max(channels, part.channels);
    widths = std::max(widths, part.panel_widths);
    size = std::max(size, part.size());
  }
  packed_x_ = allocate(channels * examples * std::min(reach, c.height) * plan.packed_columns());
  packed_dz_ = allocate(widths * examples * chunk.rows * c.out_width);
  part_ = allocate(chunk.groups > 0 ? 0 : size);
  if (chunk.groups == 0) std::fill_n(part_.get(), size, T(0));
}

template <typename T>
void Worker<T>::run(const Part& part, std::int64_t slice, T* sums, T* squares) {
  const std::int64_t begin = slice * plan_.example_groups() / plan_.slices;
  const std::int64_t end = (slice + 1) * plan_.example_groups() / plan_.slices;
  if (plan_.chunk.groups == 0) {
    for (std::int64_t group = begin; group < end; ++group) run_group(part, group, sums, squares);
    return;
  }
  for (std::int64_t group = begin; group < end; group += plan_.chunk.groups) {
    const std::int64_t groups = std::min(plan_.chunk.groups, end - group), size = plan_.examples_per_group;
    const Window window = pack(part, group * size, groups * size, 0, plan_.convolution.out_height);
    for_each_tile(
        part, window, groups, kernels_.square_rows,
        [&](const Panel& panel, std::int64_t rows, const Walk& walk, const T* dz, const T* x, std::int64_t at) {
          kernels_.square_tile[panel.kind][rows](walk, dz, x, sums + at, squares + at);
        });
  }
}

/// One group of examples that is too large to be packed as a whole.
template <typename T>
void Worker<T>::run_group(const Part& part, std::int64_t group, T* sums, T* squares) {
  const Chunk& chunk = plan_.chunk;
  const std::int64_t begin = group * plan_.examples_per_group, end = begin + plan_.examples_per_group;
  const std::int64_t out_height = plan_.convolution.out_height;
  for (std::int64_t example = begin; example < end; example += chunk.examples)
    for (std::int64_t row = 0; row < out_height; row += chunk.rows) {
      const Window window =
          pack(part, example, std::min(chunk.examples, end - example), row, std::min(chunk.rows, out_height - row));
      for_each_tile(part, window, 1, kernels_.sum_rows,
                    [&](const Panel& panel, std::int64_t rows, const Walk& walk, const T* dz, const T* x,
                        std::int64_t at) { kernels_.sum_tile[panel.kind][rows](walk, dz, x, part_.get() + at); });
    }
  kernels_.flush(part.size(), part_.get(), sums, squares);
}

template <typename T>
typename Worker<T>::Window Worker<T>::pack(const Part& part, std::int64_t example, std::int64_t examples,
                                           std::int64_t row, std::int64_t rows) {
  const Convolution& c = plan_.convolution;
  const std::int64_t first = row * c.stride_height - c.padding_height;
  const std::int64_t last =
      (row + rows - 1) * c.stride_height - c.padding_height + (c.kernel_height - 1) * c.dilation_height;
  const std::int64_t x_row = std::max<std::int64_t>(0, first);
  const std::int64_t x_rows = std::max<std::int64_t>(0, std::min(c.height, last + 1) - x_row);
  const Window window{example, examples, row, rows, x_row, x_rows};
  pack_x(part, window);
  pack_dz(part, window);
  return window;
}

template <typename T>
void Worker<T>::pack_x(const Part& part, const Window& window) {
  const Convolution& c = plan_.convolution;
  const std::int64_t plane = c.height * c.width, columns = plan_.packed_columns();
  const std::int64_t positions = window.x_rows * columns, example_step = c.groups * c.channels * plane;
  const T* example = x_ + window.example * example_step + window.x_row * c.width +
                     (part.group * c.channels + part.first_channel) * plane;
  if (plan_.wide_rows) std::fill_n(packed_x_.get(), part.channels * window.examples * positions, T(0));
  for (const ChannelBlock& block : part.blocks) {
    const T* source = example + block.first * plane;
    T* packed = packed_x_.get() + block.first * window.examples * positions;
    if (!plan_.wide_rows) {
      kernels_.interleave({window.examples, example_step, block.count * positions, block.count, plane, positions,
                           block.count, square_operands_},
                          source, packed);
      continue;
    }
    for (std::int64_t i = 0; i < window.examples; ++i)
      kernels_.interleave(
          {window.x_rows, c.width, columns * block.count, block.count, plane, c.width, block.count, square_operands_},
          source + i * example_step, packed + (i * positions + c.padding_width) * block.count);
  }
}

template <typename T>
void Worker<T>::pack_dz(const Part& part, const Window& window) {
  const Convolution& c = plan_.convolution;
  const std::int64_t plane = c.positions(), positions = window.rows * c.out_width;
  const std::int64_t example_step = c.groups * c.outputs * plane;
  const T* example = dz_ + window.example * example_step + window.row * c.out_width +
                     (part.group * c.outputs + part.first_output) * plane;
  for (const Panel& panel : part.panels)
    kernels_.interleave({window.examples, example_step, panel.width * positions, panel.count, plane, positions,
                         panel.width, square_operands_},
                        example + panel.first * plane, packed_dz_.get() + panel.offset * window.examples * positions);
}

/// Every tile of the part with at least one product, in an order that keeps a panel and a block of channels in cache:
/// run_tile(panel, rows, walk, dz, x, offset of the tile in the packed weight).
template <typename T>
template <typename RunTile>
void Worker<T>::for_each_tile(const Part& part, const Window& window, std::int64_t groups, const int* most_rows,
                              const RunTile& run_tile) const {
  const Convolution& c = plan_.convolution;
  const std::int64_t columns = plan_.packed_columns();
  for (const Panel& panel : part.panels) {
    const std::int64_t positions = window.rows * c.out_width;
    const T* packed_dz = packed_dz_.get() + panel.offset * window.examples * positions;
    for (const Run& run : part.runs) {
      const ChannelBlock& block = part.blocks[run.block];
      const std::int64_t shift_y = run.kernel_row * c.dilation_height - c.padding_height;
      const std::int64_t shift_x = plan_.wide_rows ? 0 : run.kernel_column * c.dilation_width - c.padding_width;
      const Span y = inside(window.row, window.row + window.rows, c.stride_height, shift_y, c.height);
      const Span x = plan_.wide_rows ? Span{0, c.out_width} : inside(0, c.out_width, c.stride_width, shift_x, c.width);
      if (y.begin >= y.end || x.begin >= x.end) continue;
      const Walk walk{groups,
                      window.examples / groups,
                      y.end - y.begin,
                      x.end - x.begin,
                      positions * panel.width,
                      c.out_width * panel.width,
                      window.x_rows * columns * block.count,
                      c.stride_height * columns * block.count,
                      c.stride_width * block.count};
      const T* dz = packed_dz + ((y.begin - window.row) * c.out_width + x.begin) * panel.width;
      const std::int64_t x_row = y.begin * c.stride_height + shift_y - window.x_row;
      const T* packed_x = packed_x_.get() + block.first * window.examples * window.x_rows * columns +
                          (x_row * columns + x.begin * c.stride_width + shift_x) * block.count;
      const std::int64_t pieces = (run.length + most_rows[panel.kind] - 1) / most_rows[panel.kind];
      for (std::int64_t i = 0; i < pieces; ++i) {
        const std::int64_t first = i * run.length / pieces, rows = (i + 1) * run.length / pieces - first;
        run_tile(panel, rows, walk, dz, packed_x + first, panel.offset * part.rows + (run.row + first) * panel.width);
      }
    }
  }
}

template <typename T>
void unpack_part(const Plan& plan, const Part& part, const T* packed, T* weight) {
  const Convolution& c = plan.convolution;
  const std::int64_t row_size = c.channels * c.kernel();
  T* first = weight + (part.group * c.outputs + part.first_output) * row_size + part.first_channel * c.kernel();
  for (const Panel& panel : part.panels)
    for (const ChannelBlock& block : part.blocks) {  // a block's rows stay in the first-level cache over its outputs
      const std::int64_t begin = block.first * c.kernel(), end = begin + block.count * c.kernel();
      const T* packed_panel = packed + panel.offset * part.rows;
      for (std::int64_t lane = 0; lane < panel.count; ++lane)
        for (std::int64_t row = begin; row < end; ++row)
          first[(panel.first + lane) * row_size + part.weight_row[row]] = packed_panel[row * panel.width + lane];
    }
}

template class Worker<float>;
template class Worker<double>;
template void unpack_part(const Plan&, const Part&, const float*, float*);
template void unpack_part(const Plan&, const Part&, const double*, double*);

}  // namespace covnoise::weight_gradient
