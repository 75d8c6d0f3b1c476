#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/distributed/communicator.h"
#include "covnoise/nn/model_zoo.h"

#include <functional>

namespace covnoise {

/// The result of evaluate().
struct Evaluation {
  double loss = 0;            ///< mean over examples
  double accuracy = 0;        ///< in 0..1
  std::int64_t examples = 0;  ///< evaluated
};

/// Loss and accuracy over every example of the loader, in evaluation mode, without augmentation. The model's mode is as
/// it was afterwards. Several ranks, which all call it, share the work: the result is that of one. `before_slice` is
/// called before each slice of the data and may throw.
Evaluation evaluate(
    Model& model, const Loader& loader, Communicator* ranks = nullptr,
    const std::function<void()>& before_slice = [] {});

}  // namespace covnoise
