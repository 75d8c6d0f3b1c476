#pragma once
#include "covnoise/nn/recorder.h"
#include "covnoise/noise/structure.h"

#include <functional>
#include <optional>

namespace covnoise {

/// Walks a large batch in micro-batches: the gradient of the mean loss and whatever statistics a noise structure needs,
/// in as few backward passes as that takes. Results do not depend on how the batch is sliced, beyond rounding.
class GradientPass {
 public:
  struct Options {
    std::int64_t ghost_batch = 0;            ///< examples of a ghost batch, for the `ghost` estimator
    std::vector<std::string> without_noise;  ///< parameters of layers that cannot account: left without noise
  };
  /// Sums over the batch, as tensors of one element where the network is.
  struct Sums {
    at::Tensor loss;     ///< double
    at::Tensor correct;  ///< int64
  };
  using Forward = std::function<at::Tensor(const at::Tensor& images)>;

  /// `forward` runs `module` and gives logits; `parameters` are the module's.
  GradientPass(torch::nn::Module& module, Forward forward, FlatParameters& parameters, Options options);

  /// Starts a batch, whose first `add` sets gradient and sums to zero. `seed` and `step` choose the signs, labels
  /// and normal numbers that are drawn, `first` the place of the first example in the large batch, of which this may be
  /// a part.
  void begin(const Needs& needs, std::uint64_t seed, std::uint32_t step, std::int64_t first = 0);
  /// The next examples of the batch: forward and every backward pass. With batch statistics, whole ghost batches.
  /// Neither this nor `finish` waits for a device: from the second batch of a size on a captured graph can hold them,
  /// unless Kronecker factors are needed.
  void add(const at::Tensor& images, const at::Tensor& labels);
  const Sums& sums() const { return sums_; }
  /// The statistics of a part of the parameters, already during the last `add`, once its backward pass is through with
  /// them. Parts come from the last to the first, and `finish` does the rest. Not where other passes follow that one:
  /// with labels of the model, or an extra backward.
  GradientStatistics finish_part(const FlatParameters& part);
  /// The statistics of the batch. Its buffers belong to the pass until the next begin that asks for them again.
  GradientStatistics finish();

 private:
  /// Random numbers, one for each example of the batch: what is drawn for an example depends on its place in the large
  /// batch, not on the slice it comes in.
  struct Drawn {
    RandomStream stream;
    at::Tensor values;
  };
  template <class Fill>
  at::Tensor next_of(Drawn& drawn, std::int64_t n, const at::TensorOptions& options, const Fill& fill) const;
  void start_sums();
  void draw_backward(const at::Tensor& logits, const at::Tensor& losses);
  at::Tensor sampled_losses(const at::Tensor& logits);
  void check_accounted(const Needs& needs) const;
  void finish_elements(std::int64_t first);
  void finish_diagonal(at::Tensor squares, const at::Tensor& mean) const;
  GradientStatistics statistics_of(const FlatParameters& part) const;
  std::vector<KroneckerFactor> factors_of(const FlatParameters& part) const;

  torch::nn::Module& module_;
  Forward forward_;
  FlatParameters& parameters_;
  Options options_;
  std::optional<Recorder> recorder_;  // made when a structure first needs it
  Needs needs_;
  Drawn signs_, labels_;
  at::Tensor draw_;
  Sums sums_;
  std::int64_t first_ = 0;     // place in the large batch of the first example,
  std::int64_t place_ = 0;     // and of the first of this micro-batch
  std::int64_t examples_ = 0;  // those of this micro-batch included
  std::int64_t sums_end_ = 0;  // elements of gradient and squares before this one are sums still, the others means
};

}  // namespace covnoise
