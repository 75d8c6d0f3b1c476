#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/noise/collector.h"
#include "covnoise/ops/device.h"

#include <functional>
#include <memory>
#include <vector>

namespace covnoise {

/// What the passes of a batch gave, where the network is.
struct PassedBatch {
  Statistics statistics;
  at::Tensor
      numbers;  ///< double [4]: sums of losses and of correct answers, norm of the gradient, trace of the diagonal
};

/// Forward and backward passes of whole batches in micro-batches. On a GPU as captured graphs, one for each kind of
/// batch (its size, and what the noise needs): the first batch of a kind runs as it is, the second is captured, from
/// then on it is replayed. What differs from step to step (which examples, random numbers) is in tensors that the graph
/// reads.
class BatchPasses {
 public:
  BatchPasses(Collector& collector, std::int64_t micro_batch) : collector_(collector), micro_batch_(micro_batch) {}

  /// The examples `indices` as `epoch` sees them; the collector has begun with these needs. What is returned is good
  /// until the next call. `before_last` is called before the last micro-batch, where no graph is captured.
  const PassedBatch& run(const Needs& needs, const Loader& loader, const at::Tensor& indices, std::int64_t epoch,
                         const std::function<void()>& before_last);

 private:
  struct Kind {
    Needs needs;
    at::Tensor images, labels;  // what the graph reads
    PassedBatch result;
    std::unique_ptr<CapturedWork> graph;
  };
  /// slice(first, n) gives images and labels of a micro-batch.
  template <class Slice>
  PassedBatch pass(std::int64_t batch, const Slice& slice, const std::function<void()>& before_last);
  PassedBatch finish();
  Kind* find(const Needs& needs, std::int64_t batch);

  Collector& collector_;
  std::int64_t micro_batch_;
  PassedBatch last_;
  std::vector<std::unique_ptr<Kind>> kinds_;
};

}  // namespace covnoise
