#pragma once
#include "covnoise/distributed/communicator.h"
#include "train/ranks/shard.h"

#include <torch/nn/module.h>

#include <vector>

namespace covnoise {

/// The running statistics of a network's batch normalisation, of which each rank sees only its own ghost batches. G
/// updates r <- (1 - m) r + m v_j in order are r <- (1 - m)^G r + sum_j m (1 - m)^(G-1-j) v_j: a sum, whose terms each
/// rank can keep for itself. With b ghost batches before a rank's own and a after them, its terms take the step
///
///   r <- (1 - m)^a U((1 - m)^b r),   U the updates by its own ghost batches
///
/// and the sum over ranks is what one process would have, up to rounding. Nothing is sent except for evaluations and
/// checkpoints.
class RunningStatistics {
 public:
  RunningStatistics(torch::nn::Module& model, Communicator& communicator);

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
    double keep;  // 1 - m
    std::int64_t ghost_batch;
  };
  void decay(std::int64_t examples, std::int64_t batch);

  Communicator& communicator_;
  std::vector<Layer> layers_;
  std::vector<at::Tensor> buffers_;  // mean and variance of each layer
};

}  // namespace covnoise
