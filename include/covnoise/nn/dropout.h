#pragma once
#include "covnoise/ops/philox.h"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace covnoise {

/// Dropout as a pure function of (seed, step, example, unit): in training mode each unit of an example is 0 with
/// probability p, else multiplied by 1 / (1 - p); otherwise y = x. The example is its index in the large batch, so
/// other micro-batches, other numbers of ranks and a resumed run drop the same units. x [M, ...].
///
/// The random numbers are drawn in `start`, into tensors that stay the same for a micro-batch of the same place and
/// size: a forward pass that was captured as a CUDA graph reads the new numbers of each step.
class DropoutImpl : public torch::nn::Module {
 public:
  /// `index` tells apart the dropout layers of a network, which have a stream each.
  DropoutImpl(double p, std::uint32_t index);

  /// Begins a batch, before its forward passes. GradientPass does it; loops without one have to.
  /// `first`: index of the batch's first example in the large batch, of which it may be a shard.
  void start(std::uint64_t seed, std::uint32_t step, std::int64_t first = 0);
  /// `offset`: examples of the batch before the next forward passes. `examples`: how many each of these passes has; x
  /// then has a multiple of that many rows, those of one example next to each other. 0, as after `start`: each row is
  /// an example.
  void set_offset(std::int64_t offset, std::int64_t examples = 0) { offset_ = offset, examples_ = examples; }

  at::Tensor forward(const at::Tensor& x);

 private:
  /// The uniform numbers of one micro-batch.
  struct Drawn {
    std::int64_t row;     // of the batch, where they begin
    at::Tensor uniforms;  // float [rows, units, rounded up to whole blocks of the stream]
    std::int64_t rows_of_example;
  };
  at::Tensor uniforms(const at::Tensor& x, std::int64_t units);
  void fill(const Drawn& drawn) const;
  std::int64_t rows_of_example(std::int64_t rows) const;

  double p_;
  std::uint32_t index_;
  bool started_ = false;
  RandomStream stream_;
  std::int64_t first_ = 0, offset_ = 0, examples_ = 0;
  std::vector<Drawn> drawn_;
};
TORCH_MODULE(Dropout);

/// The dropout layers of a network.
std::vector<DropoutImpl*> dropout_layers(torch::nn::Module& module);

/// Refuses PyTorch's own dropout, which drops other units in every pass, for `what` compares two passes.
void refuse_foreign_dropout(torch::nn::Module& module, const char* what);

}  // namespace covnoise
