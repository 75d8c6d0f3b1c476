#include "ops/weight_gradient/weight_gradient_worker.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
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

/// Examples of one position each follow each other as columns do: lets the innermost loop pass over them.
void fold_examples(Walk& walk) {
  walk.x_column = walk.x_example;
  walk.dz_example *= walk.examples, walk.x_example *= walk.examples;
  walk.width = walk.examples, walk.examples = 1;
}

constexpr std::int64_t kLongGroup = 64;  // positions of a group whose products outweigh a tile's loads and stores

constexpr std::int64_t kAlignment = 64;  // a cache line, and the widest vector

std::int64_t round_up(std::int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

/// This thread's buffer, grown to `size` elements if it is smaller. Its contents are left over from earlier uses.
template <typename T>
T* thread_buffer(std::int64_t size) {
  struct Free {
    void operator()(T* pointer) const { std::free(pointer); }
  };
  static thread_local std::unique_ptr<T[], Free> buffer;
  static thread_local std::int64_t capacity = 0;
  if (size > capacity) {
    buffer.reset();
    capacity = 0;
    buffer.reset(static_cast<T*>(std::aligned_alloc(kAlignment, round_up(size) * sizeof(T))));
    if (buffer == nullptr) throw std::bad_alloc();
    capacity = size;
  }
  return buffer.get();
}

}  // namespace

template <typename T>
Worker<T>::Worker(const Plan& plan, const Kernels<T>& kernels, const T* x, const T* dz, SquaresOf squares_of)
    : plan_(plan), kernels_(kernels), x_(x), dz_(dz), squares_of_(squares_of) {
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
  const std::int64_t x_size = round_up(channels * examples * std::min(reach, c.height) * plan.packed_columns());
  const std::int64_t dz_size = round_up(widths * examples * chunk.rows * c.out_width);
  packed_x_ = thread_buffer<T>(x_size + dz_size + 3 * round_up(size));
  packed_dz_ = packed_x_ + x_size;
  group_ = packed_dz_ + dz_size;
  sums_ = group_ + round_up(size);
  squares_ = sums_ + round_up(size);
  std::fill_n(group_, size, T(0));
}

template <typename T>
void Worker<T>::run_part(const Part& part, T* sums, T* squares) {
  run_slice(part, 0, sums_, squares_);
  unpack_part<T, Unpack::kWrite>(plan_, part, sums_, sums);
  if (squares_of_ != SquaresOf::kNothing) unpack_part<T, Unpack::kAdd>(plan_, part, squares_, squares);
}

template <typename T>
void Worker<T>::run_slice(const Part& part, std::int64_t slice, T* sums, T* squares) {
  const std::int64_t begin = slice * plan_.example_groups() / plan_.slices;
  const std::int64_t end = (slice + 1) * plan_.example_groups() / plan_.slices;
  const std::int64_t size = plan_.examples_per_group;
  std::fill_n(sums, part.size(), T(0));
  if (squares_of_ == SquaresOf::kNothing) return add_sums(part, begin * size, end * size, sums, nullptr);
  std::fill_n(squares, part.size(), T(0));
  if (squares_of_ == SquaresOf::kPositions) return add_sums(part, begin * size, end * size, sums, squares);
  if (plan_.chunk.groups > 0) return add_groups(part, begin, end, sums, squares);
  for (std::int64_t group = begin; group < end; ++group) {  // too large to be packed at once
    add_sums(part, group * size, (group + 1) * size, group_, nullptr);
    kernels_.flush(part.size(), group_, sums, squares);
  }
}

/// Adds whole groups of examples to packed sums and squares, as many at once as a chunk holds.
template <typename T>
void Worker<T>::add_groups(const Part& part, std::int64_t begin, std::int64_t end, T* sums, T* squares) {
  const std::int64_t size = plan_.examples_per_group, positions = size * plan_.convolution.positions();
  const bool is_long = positions >= kLongGroup;
  const auto& tiles = is_long ? kernels_.long_square_tile : kernels_.square_tile;
  const int* rows = is_long ? kernels_.sum_rows : positions == 1 ? kernels_.pixel_rows : kernels_.square_rows;
  for (std::int64_t group = begin; group < end; group += plan_.chunk.groups) {
    const std::int64_t groups = std::min(plan_.chunk.groups, end - group);
    const Window window = pack(part, group * size, groups * size, 0, plan_.convolution.out_height);
    for_each_tile(part, window, groups, rows,
                  [&](const Panel& panel, std::int64_t count, const Walk& walk, const T* dz, const T* x,
                      std::int64_t at) { tiles[panel.kind][count](walk, dz, x, sums + at, squares + at); });
  }
}

/// Adds the contributions of examples to packed sums, as many examples at once as a chunk holds.
template <typename T>
void Worker<T>::add_sums(const Part& part, std::int64_t begin, std::int64_t end, T* sums, T* squares_of_positions) {
  const Chunk& chunk = plan_.chunk;
  const std::int64_t examples = std::max<std::int64_t>(1, chunk.groups) * chunk.examples;
  const std::int64_t out_height = plan_.convolution.out_height;
  for (std::int64_t example = begin; example < end; example += examples)
    for (std::int64_t row = 0; row < out_height; row += chunk.rows) {
      const Window window =
          pack(part, example, std::min(examples, end - example), row, std::min(chunk.rows, out_height - row));
      add_products(part, window, sums);
      if (squares_of_positions == nullptr) continue;
      square_packed(part, window);
      add_products(part, window, squares_of_positions);
    }
}

template <typename T>
void Worker<T>::add_products(const Part& part, const Window& window, T* sums) const {
  for_each_tile(part, window, 1, kernels_.sum_rows,
                [&](const Panel& panel, std::int64_t rows, const Walk& walk, const T* dz, const T* x, std::int64_t at) {
                  kernels_.sum_tile[panel.kind][rows](walk, dz, x, sums + at);
                });
}

template <typename T>
void Worker<T>::square_packed(const Part& part, const Window& window) {
  kernels_.square(part.channels * window.examples * window.x_rows * plan_.packed_columns(), packed_x_);
  kernels_.square(part.panel_widths * window.examples * window.rows * plan_.convolution.out_width, packed_dz_);
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

/// A few examples at a time: blocks and panels of small images share cache lines, which are then still cached.
template <typename T>
template <typename PackExamples>
void Worker<T>::for_each_batch(const Window& window, const PackExamples& pack_examples) const {
  constexpr std::int64_t kBatch = 16;
  for (std::int64_t first = 0; first < window.examples; first += kBatch)
    pack_examples(first, std::min(kBatch, window.examples - first));
}

template <typename T>
void Worker<T>::pack_x(const Part& part, const Window& window) {
  const Convolution& c = plan_.convolution;
  const std::int64_t plane = c.height * c.width, columns = plan_.packed_columns();
  const std::int64_t positions = window.x_rows * columns, example_step = c.groups * c.channels * plane;
  const T* x = x_ + window.example * example_step + window.x_row * c.width +
               (part.group * c.channels + part.first_channel) * plane;
  if (plan_.wide_rows) {  // few channels: one block, row by row between the padding
    std::fill_n(packed_x_, part.channels * window.examples * positions, T(0));
    for (std::int64_t i = 0; i < window.examples; ++i)
      kernels_.interleave(
          {window.x_rows, c.width, columns * part.channels, part.channels, plane, c.width, part.channels},
          x + i * example_step, packed_x_ + (i * positions + c.padding_width) * part.channels);
    return;
  }
  for_each_batch(window, [&](std::int64_t first, std::int64_t examples) {
    for (const ChannelBlock& block : part.blocks) {
      const std::int64_t step = block.count * positions;
      kernels_.interleave({examples, example_step, step, block.count, plane, positions, block.count},
                          x + first * example_step + block.first * plane,
                          packed_x_ + block.first * window.examples * positions + first * step);
    }
  });
}

template <typename T>
void Worker<T>::pack_dz(const Part& part, const Window& window) {
  const Convolution& c = plan_.convolution;
  const std::int64_t plane = c.positions(), positions = window.rows * c.out_width;
  const std::int64_t example_step = c.groups * c.outputs * plane;
  const T* dz = dz_ + window.example * example_step + window.row * c.out_width +
                (part.group * c.outputs + part.first_output) * plane;
  for_each_batch(window, [&](std::int64_t first, std::int64_t examples) {
    for (const Panel& panel : part.panels) {
      const std::int64_t step = panel.width * positions;
      kernels_.interleave({examples, example_step, step, panel.count, plane, positions, panel.width},
                          dz + first * example_step + panel.first * plane,
                          packed_dz_ + panel.offset * window.examples * positions + first * step);
    }
  });
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
    const T* packed_dz = packed_dz_ + panel.offset * window.examples * positions;
    for (const Run& run : part.runs) {
      const ChannelBlock& block = part.blocks[run.block];
      const std::int64_t shift_y = run.kernel_row * c.dilation_height - c.padding_height;
      const std::int64_t shift_x = plan_.wide_rows ? 0 : run.kernel_column * c.dilation_width - c.padding_width;
      const Span y = inside(window.row, window.row + window.rows, c.stride_height, shift_y, c.height);
      const Span x = plan_.wide_rows ? Span{0, c.out_width} : inside(0, c.out_width, c.stride_width, shift_x, c.width);
      if (y.begin >= y.end || x.begin >= x.end) continue;
      Walk walk{groups,
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
      const T* packed_x = packed_x_ + block.first * window.examples * window.x_rows * columns +
                          (x_row * columns + x.begin * c.stride_width + shift_x) * block.count;
      if (walk.dz_example == panel.width && walk.x_example == block.count) fold_examples(walk);
      const std::int64_t pieces = (run.length + most_rows[panel.kind] - 1) / most_rows[panel.kind];
      for (std::int64_t i = 0; i < pieces; ++i) {
        const std::int64_t first = i * run.length / pieces, rows = (i + 1) * run.length / pieces - first;
        run_tile(panel, rows, walk, dz, packed_x + first, panel.offset * part.rows + (run.row + first) * panel.width);
      }
    }
  }
}

/// Rows of the packed weight are rows of the weight.
template <typename T, Unpack kHow>
void unpack_rows(const Plan& plan, const Part& part, const T* packed, T* weight) {
  for (std::int64_t row = 0; row < part.rows; ++row)
    for (const Panel& panel : part.panels) {
      const T* from = packed + panel.offset * part.rows + row * panel.width;
      T* to = weight + (part.first_channel + row) * plan.convolution.outputs + part.first_output + panel.first;
      if (kHow == Unpack::kWrite) {
        std::copy_n(from, panel.count, to);
      } else {
        for (std::int64_t lane = 0; lane < panel.count; ++lane) to[lane] += from[lane];
      }
    }
}

template <typename T, Unpack kHow>
void unpack_part(const Plan& plan, const Part& part, const T* packed, T* weight) {
  if (plan.transposed) return unpack_rows<T, kHow>(plan, part, packed, weight);
  const Convolution& c = plan.convolution;
  const std::int64_t row_size = c.channels * c.kernel();
  T* first = weight + (part.group * c.outputs + part.first_output) * row_size + part.first_channel * c.kernel();
  // Some blocks of channels at a time: enough to fill cache lines of the weight, few enough to stay in the L1 cache
  // over the outputs of a panel.
  const std::int64_t step = kMaxRows * c.kernel() * std::max<std::int64_t>(1, 16 / c.kernel());
  for (const Panel& panel : part.panels)
    for (std::int64_t begin = 0; begin < part.rows; begin += step) {
      const std::int64_t end = std::min(begin + step, part.rows);
      const T* packed_panel = packed + panel.offset * part.rows;
      for (std::int64_t lane = 0; lane < panel.count; ++lane)
        for (std::int64_t row = begin; row < end; ++row) {
          T& element = first[(panel.first + lane) * row_size + part.weight_row[row]];
          const T value = packed_panel[row * panel.width + lane];
          element = kHow == Unpack::kAdd ? element + value : value;
        }
    }
}

template class Worker<float>;
template class Worker<double>;
template void unpack_part<float, Unpack::kWrite>(const Plan&, const Part&, const float*, float*);
template void unpack_part<float, Unpack::kAdd>(const Plan&, const Part&, const float*, float*);
template void unpack_part<double, Unpack::kWrite>(const Plan&, const Part&, const double*, double*);
template void unpack_part<double, Unpack::kAdd>(const Plan&, const Part&, const double*, double*);

}  // namespace covnoise::weight_gradient
