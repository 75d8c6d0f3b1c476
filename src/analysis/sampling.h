#pragma once
#include "covnoise/nn/model_zoo.h"
#include "covnoise/ops/philox.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace covnoise {

/// `count` of `size` examples, drawn with replacement: int64 [count], a function of (seed, number).
at::Tensor drawn_examples(std::int64_t size, std::int64_t count, std::uint64_t seed, std::int64_t number);

/// Restores the running statistics and the mode of a network when it is destroyed.
class KeepState {
 public:
  explicit KeepState(Model& model);
  ~KeepState();
  KeepState(const KeepState&) = delete;
  KeepState& operator=(const KeepState&) = delete;

 private:
  Model& model_;
  bool training_;
  std::vector<at::Tensor> kept_;
};

}  // namespace covnoise
