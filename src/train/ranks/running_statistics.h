#pragma once
#include "covnoise/distributed/communicator.h"
#include "covnoise/nn/batch_norm.h"
#include "train/ranks/shard.h"

#include <torch/nn/module.h>

#include <functional>
#include <vector>

namespace covnoise {

/// The running statistics of a network's batch normalisation, of which each rank sees only its own ghost batches. G
/// updates r <- (1 - m) r + m v_j in order are r <- (1 - m)^G r + sum_j m (1 - m)^(G-1-j) v_j: a sum, whose terms each
/// rank can keep for itself. With b ghost batches before a rank's own and a after them, its terms take the step
///
///   r <- (1 - m)^a U((1 - m)^b r),   U the updates by its own ghost batches
///
/// and the sum over ranks is what one process would have, up to rounding. Nothing is sent except for evaluations and
/// checkpoints. Of a layer that is called several times in a pass, one process would have to pass over the shards one
/// after the other for the same order of its updates.
class RunningStatistics {
 public:
  RunningStatistics(torch::nn::Module& model, Communicator& communicator);

  /// From a pass in evaluation mode, which returns its number of examples: how often each layer is called, and with how
  /// many rows for each example; once with one until then. Counted ahead of the training, because another rank's
  /// updates come before the first of its own, and steps that are CUDA graphs cannot be counted. A layer that the pass
  /// does not call is left at one.
  void count_calls(const std::function<std::int64_t()>& pass);

  void before(const Shard& shard);
  void after(const Shard& shard);

  /// During its lifetime the network has the whole statistics. All ranks create one at the same time.
  class Whole {
   public:
    explicit Whole(RunningStatistics& statistics);
    ~Whole();
    Whole(const Whole&) = delete;
    Whole& operator=(const Whole&) = delete;

   private:
    RunningStatistics& statistics_;
    at::Tensor own_;
  };

  /// After the network got whole statistics: rank 0 keeps them as its own terms, the others start with none.
  void split();
  /// The network gets the whole statistics. All ranks call it.
  void sum_up();
  at::Tensor own_terms() const;  ///< as one row; empty if the network has none
  void set_own_terms(const at::Tensor& row);

 private:
  struct Layer {
    GhostBatchNorm2dImpl* module;
    double keep;  // 1 - m
    std::int64_t ghost_batch;
    std::int64_t calls = 1, rows = 1;  // in a pass; of one example in all of them
  };
  void decay(std::int64_t examples, std::int64_t batch);

  Communicator& communicator_;
  std::vector<Layer> layers_;
  std::vector<at::Tensor> buffers_;  // mean and variance of each layer
};

}  // namespace covnoise
