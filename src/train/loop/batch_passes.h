#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/ops/device.h"

#include <memory>
#include <vector>

namespace covnoise {

/// What the passes of a batch gave, where the network is.
struct PassedBatch {
  GradientStatistics statistics;
  at::Tensor
      numbers;  ///< double [4]: sums of losses and of correct answers, norm of the gradient, trace of the diagonal
};

/// Forward and backward passes of whole batches in micro-batches. On a GPU as captured work, one for each kind of batch
/// (its size, and what the noise needs): the first batch of a kind runs as it is, the second is captured, from then on
/// it is replayed. What differs from step to step (which examples, random numbers) is in tensors that the captured work
/// reads, or is done aside.
class BatchPasses {
 public:
  using AddHostCallback = CudaGraphSequence::AddHostCallback;
  /// Called before the last micro-batch, unless that is replayed. What the backward pass's hooks then give to `aside`
  /// is called in its place in the pass: at once where it runs as it is, otherwise in every replay.
  using BeforeLast = std::function<void(const AddHostCallback& add_host_callback)>;

  BatchPasses(GradientPass& pass, std::int64_t micro_batch) : pass_(pass), micro_batch_(micro_batch) {}

  /// The examples `indices` as `epoch` sees them; the pass has begun with these needs. What is returned is good
  /// until the next call.
  const PassedBatch& run(const Needs& needs, const Loader& loader, const at::Tensor& indices, std::int64_t epoch,
                         const BeforeLast& before_last);

 private:
  struct Kind {
    Needs needs;
    at::Tensor images, labels;  // what the captured work reads
    PassedBatch result;
    std::unique_ptr<CudaGraphSequence> captured;
  };
  /// slice(first, n) gives images and labels of a micro-batch.
  template <class Slice>
  PassedBatch pass(std::int64_t batch, const Slice& slice, const BeforeLast& before_last,
                   const AddHostCallback& add_host_callback);
  PassedBatch finish();
  Kind* find(const Needs& needs, std::int64_t batch);

  GradientPass& pass_;
  std::int64_t micro_batch_;
  PassedBatch last_;
  std::vector<std::unique_ptr<Kind>> kinds_;
};

}  // namespace covnoise
