#pragma once
#include "covnoise/core/safetensors.h"
#include "covnoise/data/loader.h"
#include "covnoise/nn/model_zoo.h"

#include <cstdint>
#include <vector>

namespace covnoise {

/// Which examples, and in which mode.
struct FisherOptions {
  std::int64_t examples = 0;  ///< the first N of the loader; 0: all
  bool training_mode =
      false;  ///< batch statistics instead of running ones; examples beyond whole ghost batches are left out
  std::int64_t ghost_batch = 0;  ///< of the network, in training mode
};

/// diag(F) of a trained network.
struct FisherDiagonal {
  std::int64_t examples = 0;
  double loss = 0;                    ///< mean
  double trace = 0;                   ///< Tr F
  std::vector<NamedTensor> gradient;  ///< of the mean loss, by parameter
  std::vector<NamedTensor> diagonal;  ///< mean_i g_i^2, by parameter
};

/// The gradient and the diagonal of the empirical Fisher matrix of a network over a data set, exactly: per-example
/// contributions with positions summed before squaring. `model` keeps its values and its mode.
FisherDiagonal fisher_diagonal(Model& model, const Loader& loader, const FisherOptions& options);

}  // namespace covnoise
