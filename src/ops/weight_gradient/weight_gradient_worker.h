#pragma once
#include "ops/weight_gradient/weight_gradient_plan.h"

#include <cstdint>

namespace covnoise::weight_gradient {

enum class SquaresOf {
  kNothing,
  kGroups,     ///< sums over a group of examples
  kPositions,  ///< single products x dz
};

/// Runs tasks of a plan, one at a time, in small buffers that its thread keeps: new ones would cost a page fault per
/// 4096 bytes in every call. A thread has at most one worker of a type at a time.
template <typename T>
class Worker {
 public:
  /// x and dz contiguous.
  Worker(const Plan& plan, const Kernels<T>& kernels, const T* x, const T* dz, SquaresOf squares_of);

  /// What the examples of `slice` contribute to `part`: its packed sums and squares, written whole. No squares if they
  /// are of nothing.
  void run_slice(const Part& part, std::int64_t slice, T* sums, T* squares);

  /// What all examples contribute to `part`, where it belongs in the weight-sized `sums` (written) and `squares`
  /// (added). Only if the plan has one slice.
  void run_part(const Part& part, T* sums, T* squares);

 private:
  /// Examples and output rows that are currently packed, and the rows of x that they read.
  struct Window {
    std::int64_t example, examples, row, rows, x_row, x_rows;
  };
  void add_sums(const Part& part, std::int64_t begin, std::int64_t end, T* sums, T* squares_of_positions);
  void add_groups(const Part& part, std::int64_t begin, std::int64_t end, T* sums, T* squares);
  void add_products(const Part& part, const Window& window, T* sums) const;
  void square_packed(const Part& part, const Window& window);
  Window pack(const Part& part, std::int64_t example, std::int64_t examples, std::int64_t row, std::int64_t rows);
  template <typename PackExamples>
  void for_each_batch(const Window& window, const PackExamples& pack_examples) const;
  void pack_x(const Part& part, const Window& window);
  void pack_dz(const Part& part, const Window& window);
  template <typename RunTile>
  void for_each_tile(const Part& part, const Window& window, std::int64_t groups, const int* most_rows,
                     const RunTile& run_tile) const;

  const Plan& plan_;
  const Kernels<T>& kernels_;
  const T* x_;
  const T* dz_;
  SquaresOf squares_of_;
  T *packed_x_, *packed_dz_;
  T *group_, *sums_, *squares_;  // packed weights: of the current group, and of run_part
};

enum class Unpack { kWrite, kAdd };

/// Writes a part's packed weight where it belongs in `weight` [groups * outputs, channels, kernel], or adds it there.
template <typename T, Unpack kHow>
void unpack_part(const Plan& plan, const Part& part, const T* packed, T* weight);

}  // namespace covnoise::weight_gradient
