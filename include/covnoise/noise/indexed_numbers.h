#pragma once
#include "covnoise/ops/philox.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace covnoise {

/// Random numbers for the examples of a large batch, or for its groups of examples: those of an index are a function of
/// the stream and of the index, so that other micro-batches and shards of the batch draw the same.
///
/// Tensors that `rows` returned stay in place and get the numbers of the next stream by `start`: a pass that was
/// captured as a CUDA graph reads the new numbers of each step, also after a larger batch needed more of them.
class IndexedNumbers {
 public:
  using Fill = void (*)(const at::Tensor& out, const RandomStream& stream);
  /// `fill`: the distribution (fill_signs, fill_uniform).
  explicit IndexedNumbers(Fill fill) : fill_(fill) {}

  /// Begins another batch.
  void start(const RandomStream& stream);
  /// The numbers of the indices [begin, end): [end - begin, columns], of the type and on the device of `options`.
  at::Tensor rows(std::int64_t begin, std::int64_t end, std::int64_t columns, const at::TensorOptions& options);

 private:
  Fill fill_;
  RandomStream stream_;
  std::vector<at::Tensor> kept_;  // [rows from index 0, columns]
};

}  // namespace covnoise
