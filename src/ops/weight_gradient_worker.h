#pragma once
#include "ops/weight_gradient_plan.h"

#include <cstdint>
#include <memory>

namespace covnoise::weight_gradient {

/// Runs tasks of a plan, one at a time, in its own small buffers.
template <typename T>
class Worker {
 public:
  /// x and dz contiguous. `square_operands`: both are squared on their way in.
  Worker(const Plan& plan, const Kernels<T>& kernels, const T* x, const T* dz, bool square_operands);

  /// Adds what the examples of `slice` contribute to `part` to its packed sums and squares.
  void run(const Part& part, std::int64_t slice, T* sums, T* squares);

 private:
  /// Examples and rows of the output that are packed at present, and the rows of x that they touch.
  struct Window {
    std::int64_t example, examples, row, rows, x_row, x_rows;
  };
  void run_group(const Part& part, std::int64_t group, T* sums, T* squares);
  Window pack(const Part& part, std::int64_t example, std::int64_t examples, std::int64_t row, std::int64_t rows);
  void pack_x(const Part& part, const Window& window);
  void pack_dz(const Part& part, const Window& window);
  template <typename RunTile>
  void for_each_tile(const Part& part, const Window& window, std::int64_t groups, const int* most_rows,
                     const RunTile& run_tile) const;

  const Plan& plan_;
  const Kernels<T>& kernels_;
  const T* x_;
  const T* dz_;
  bool square_operands_;
  struct Free {
    void operator()(T* pointer) const;
  };
  using Buffer = std::unique_ptr<T[], Free>;
  static Buffer allocate(std::int64_t size);
  Buffer packed_x_, packed_dz_, part_;
};

/// Writes a part's packed weight where it belongs in `weight` [groups * outputs, channels, kernel].
template <typename T>
void unpack_part(const Plan& plan, const Part& part, const T* packed, T* weight);

}  // namespace covnoise::weight_gradient
