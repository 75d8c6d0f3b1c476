#pragma once
#include "covnoise/nn/dropout.h"
#include "covnoise/nn/loss.h"
#include "covnoise/nn/recorder.h"
#include "covnoise/nn/struct_of_tensors.h"
#include "covnoise/noise/indexed_numbers.h"
#include "covnoise/noise/structure.h"
#include "covnoise/ops/device.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace covnoise {

class OtherWeights;
class Sharpness;

/// What the metrics need from one step. On a device the values are one tensor, so that one copy brings those of many
/// steps to the host.
struct StepMetrics {
  double loss_sum = 0;       ///< sum of the examples' losses
  double correct = 0;        ///< examples whose largest logit is that of their label
  double gradient_norm = 0;  ///< of the mean gradient
  double diagonal_sum = 0;   ///< sum of the diagonal's estimate; 0 without squares
  double stop_requests = 0;  ///< ranks that want to stop; 0 in one process

  /// Order of the packed values.
  enum Index : std::int64_t { kLossSum, kCorrect, kGradientNorm, kDiagonalSum, kStopRequests, kCount };
  /// Scalars -> a double tensor [kCount]; undefined ones are 0.
  static at::Tensor pack(const at::Tensor& loss_sum, const at::Tensor& correct, const at::Tensor& gradient_norm,
                         const at::Tensor& diagonal_sum, const at::Tensor& stop_requests);
  /// From kCount consecutive values on the host.
  static StepMetrics unpack(const double* packed);
};

/// The gradient pass of one large batch, from begin to finish: forward and backward passes over micro-batches, which
/// give the gradient of the mean loss and whatever statistics a noise structure needs, in as few backward passes as
/// possible. Results do not depend on the micro-batches, beyond rounding, except for the squares of Squares::kMicro and
/// with Options::sharpness.
///
/// The loss is any function of the examples; they are any struct of tensors (`loss_on`), or a list of them.
///
/// `run` does all of it. Callers that load micro-batches themselves call `begin`, `add` for each of them, `finish`.
class GradientPass {
 public:
  /// How the pass goes over a batch.
  struct Options {
    std::int64_t group = 0;                       ///< examples per group of the ghost estimator
    std::int64_t micro_batch = 0;                 ///< examples that `run` passes at once; 0: the whole batch
    std::vector<std::string> without_noise = {};  ///< parameters left without diagonal noise, such as those of layers
                                                  ///< that cannot account
    /// rho > 0: the gradient and the statistics of each micro-batch are taken at theta + rho g_j / |g_j|, g_j its
    /// gradient at theta, by two passes (docs/noise.md). Micro-batches then change the results.
    double sharpness = 0;
    std::int64_t sharpness_batch = 0;  ///< examples of those micro-batches; 0: micro_batch
  };
  /// Some examples, on the network's device: tensors [M, ...] in the order that the loss wants; undefined ones are left
  /// as they are.
  using Examples = std::vector<at::Tensor>;
  using Loss = std::function<Losses(const Examples& examples)>;
  using Forward = std::function<at::Tensor(const at::Tensor& images)>;

  /// Another backward pass, of sum_j sigma_j sum_(i in j) l_i: one sign for each group j of consecutive examples of the
  /// large batch, sigma_j = +-1 a function of seed, step and j.
  struct GroupSigns {
    std::int64_t size = 0;  ///< examples per group; 0: no such pass
    bool alone = false;     ///< only this pass: gradient, statistics and metrics stay as they are
    friend bool operator==(const GroupSigns& a, const GroupSigns& b) { return a.size == b.size && a.alone == b.alone; }
  };

  /// Which statistics, and the counters of the random numbers that are drawn for them.
  struct Request {
    Needs needs;             ///< of the noise structure (Injection::needs)
    std::uint64_t seed = 0;  ///< of the run
    std::uint32_t step = 0;  ///< from 0
    std::int64_t first = 0;  ///< index of the first example in the large batch, of which this may be a shard
    GroupSigns groups = {};  ///< of another backward pass, for the ghost penalty
    bool sharp = true;       ///< with Options::sharpness, if there is any; false: as without it
  };

  using AddHostCallback = CudaGraphSequence::AddHostCallback;
  /// What `run` passes over.
  struct Batch {
    std::int64_t size = 0;  ///< examples
    /// Examples [first, first + count) of the batch.
    std::function<Examples(std::int64_t first, std::int64_t count)> load;
    /// Called before the last micro-batch, unless that is replayed. What hooks of the backward pass then hand to
    /// `add_host_callback` is called at this point of the pass: at once while it runs, otherwise in every replay.
    std::function<void(const AddHostCallback& add_host_callback)> before_last = [](const AddHostCallback&) {};
  };

  /// What a pass gave, on the network's device.
  struct Result {
    GradientStatistics statistics;  ///< of the whole batch
    at::Tensor metrics;             ///< of StepMetrics
    at::Tensor signed_sum;          ///< sum_j sigma_j sum_(i in j) grad l_i; undefined unless requested
  };

  /// `loss` runs `module` and returns a loss for each example; `parameters` are the module's.
  GradientPass(torch::nn::Module& module, Loss loss, FlatParameters& parameters, Options options);
  /// The same for classification: `forward` runs `module` and returns logits, and the examples are images and labels.
  GradientPass(torch::nn::Module& module, Forward forward, FlatParameters& parameters, Options options);
  ~GradientPass();

  /// Examples that `run` passes at once, of a batch of this size.
  std::int64_t micro_batch(std::int64_t batch, bool sharp) const;

  /// A whole batch. On a GPU as a CUDA graph, one for each kind of batch (its size, and what was requested): the
  /// first batch of a kind runs eagerly, the second is captured, later ones are replayed. What differs from step to
  /// step (examples, random numbers) is in tensors that the graph reads, or in host callbacks. Kronecker factors are
  /// never captured. The result is valid until the next call.
  const Result& run(const Request& request, const Batch& batch);

  /// Starts a batch, whose first `add` sets gradient and sums to zero.
  void begin(const Request& request);
  /// The next examples of the batch: forward and every backward pass. With batch statistics, whole ghost batches. With
  /// Options::sharpness, a micro-batch.
  /// Neither this nor `finish` waits for a device.
  void add(const Examples& examples);
  void add(const at::Tensor& images, const at::Tensor& labels) { add(Examples{images, labels}); }
  template <class Batch, class = std::enable_if_t<std::is_aggregate_v<Batch>>>
  void add(const Batch& batch) {
    add(tensors_of(batch));
  }
  /// Sum of the losses of the examples added so far, with sharpness at theta: a scalar on the network's device.
  const at::Tensor& loss_sum() const { return loss_sum_; }
  /// Result::signed_sum of the examples added so far.
  const at::Tensor& signed_sum() const { return signed_; }
  /// The statistics of a slice of the parameters, already during the last `add`, once its backward pass has finished
  /// with them. Slices come from the last to the first, and `finish` does the rest. Not possible where other passes
  /// follow that one (with labels of the model, or an extra backward), nor with Squares::kMicro.
  GradientStatistics finish_slice(const FlatParameters& slice);
  /// The statistics of the batch. Its buffers belong to the pass until the next begin that requests them again.
  GradientStatistics finish();

 private:
  struct Captured;
  bool by_layers() const;
  void start_sums();
  Losses losses_of(const Examples& examples);
  void add_losses(const Losses& losses);
  std::unique_ptr<OtherWeights> ascend(const Examples& examples);
  void draw_backward(const Losses& losses, bool retain_graph);
  void signed_backward(const Losses& losses);
  void add_gradients(const at::Tensor& losses, const at::Tensor& factors, bool retain_graph, const at::Tensor& buffer);
  at::Tensor sampled_losses(const Losses& losses);
  void add_micro_batch(std::int64_t examples);
  const at::Tensor& squares() const;
  void clear_without_noise(std::int64_t first);
  void check_accounted() const;
  std::vector<at::Tensor> trainable() const;
  void finish_elements(std::int64_t first);
  void finish_diagonal(at::Tensor squares, const at::Tensor& mean) const;
  GradientStatistics statistics_of(const FlatParameters& slice) const;
  std::vector<KroneckerFactor> factors_of(const FlatParameters& slice) const;
  Result pass_over(const Batch& batch, const AddHostCallback& add_host_callback);
  Result finish_with_metrics();
  const Result& run_captured(const Batch& batch);
  Captured* find_captured(std::int64_t batch);

  torch::nn::Module& module_;
  Loss loss_;
  FlatParameters& parameters_;
  Options options_;
  std::vector<DropoutImpl*> dropout_;
  std::unique_ptr<Sharpness> sharpness_;
  bool sharp_ = false;                // in this batch
  std::optional<Recorder> recorder_;  // made when a structure first needs it
  Needs needs_;
  GroupSigns groups_;
  IndexedNumbers signs_, group_signs_, labels_;
  at::Tensor draw_, signed_;
  at::Tensor micro_sum_, micro_squares_;  // of the gradients of the micro-batches, if those are compared
  std::int64_t micro_size_ = 0;           // examples of each of them
  at::Tensor loss_sum_, correct_;         // double and int64 scalars where the network is
  std::int64_t first_ = 0;                // index in the large batch of the first example,
  std::int64_t first_of_micro_ = 0;       // and of the first one of this micro-batch
  std::int64_t examples_ = 0;             // including those of this micro-batch
  std::int64_t sums_end_ = 0;  // elements of gradient and squares before this one are still sums, the others means
  Result result_;              // of a batch that is not captured
  std::vector<std::unique_ptr<Captured>> captured_;  // one for each kind of batch
};

/// A loss function of a network and a struct of tensors, for a GradientPass:
///
///   struct Batch { at::Tensor x, y; };
///   const auto loss = loss_on<Batch>(network, [](Network& network, const Batch& batch) {
///     return mean_squared_error(network.forward(batch.x), batch.y);
///   });
template <class Batch, class Module, class Function>
GradientPass::Loss loss_on(Module& module, Function function) {
  return [&module, function = std::move(function)](const GradientPass::Examples& examples) -> Losses {
    return function(module, struct_of<Batch>(examples));
  };
}

}  // namespace covnoise
