#pragma once
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "covnoise/noise/penalty.h"

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>

namespace covnoise {

/// Noise in a training loop of your own: `backward` takes the place of loss.backward(), and the optimizer is any of
/// PyTorch's.
///
///   covnoise::NoiseOptions noise;
///   noise.structure = "diag-fisher";
///   covnoise::NoisyGradient gradient(network, covnoise::loss_on<Batch>(network, losses), noise, optimizer);
///   ...
///   gradient.backward(batch);
///   optimizer.step();
///
/// Any module will do: the estimator `auto` is `micro` for layers that cannot account for examples. The parameters
/// become views of one buffer (FlatParameters). One process; for several, checkpoints and metrics see Trainer.
class NoisyGradient {
 public:
  /// What the loop knows and the noise needs.
  struct Options {
    std::int64_t steps = 0;        ///< of the training, of which the noise takes noise.stop_after; 0: it never stops
    std::int64_t micro_batch = 0;  ///< examples that pass at once; 0: the batch, or with `micro` the noise's group
    std::uint64_t seed = 0;        ///< of the noise
    /// Largest norm of gradient plus noise, or with noise.clip_norm of the gradient alone; 0: no clipping. Not the
    /// loop's own clipping: the momentum buffer would keep what that takes from noise in the update.
    double clip_norm = 0;
  };

  /// The optimizer's momentum and learning rate are read at every step. noise.placement = update, the paper's, is for
  /// torch::optim::SGD without dampening: its noise is sent through the gradient so that the parameters are those of
  /// noise after the momentum buffer. Other optimizers take noise.placement = gradient, or weights: the gradient at
  /// weights with noise, which they do not have outside `backward`.
  NoisyGradient(torch::nn::Module& module, GradientPass::Loss loss, const NoiseOptions& noise,
                const torch::optim::Optimizer& optimizer, const Options& options);
  NoisyGradient(torch::nn::Module& module, GradientPass::Loss loss, const NoiseOptions& noise,
                const torch::optim::Optimizer& optimizer)
      : NoisyGradient(module, std::move(loss), noise, optimizer, Options()) {}
  ~NoisyGradient();

  /// Sets the gradients of the parameters to those of the mean loss of these examples, plus that of noise.penalty, plus
  /// noise. Returns the mean loss, a scalar on the network's device.
  at::Tensor backward(const GradientPass::Examples& examples);
  template <class Batch, class = std::enable_if_t<std::is_aggregate_v<Batch>>>
  at::Tensor backward(const Batch& batch) {
    return backward(tensors_of(batch));
  }

  /// For noise.scale = "match", whenever it changes: the schedule of the small batch at this moment, warm-up included,
  /// as a factor of noise.match_lr; 1 until it is set. An optimizer whose learning rate is scheduled needs it.
  void set_match_factor(double factor);

  const Injection& injection() const { return injection_; }
  std::int64_t steps_done() const { return step_; }

 private:
  struct Placed;
  StepContext context_of(std::int64_t batch) const;
  void attach_gradients();
  void pass_over(const GradientPass::Examples& examples, const GradientPass::Request& request, std::int64_t size);
  void add_clipped(StepNoise noise, const StepContext& context);

  FlatParameters parameters_;
  std::vector<at::Tensor> tensors_;
  Injection injection_;
  Options options_;
  std::int64_t micro_batch_;
  GradientPass pass_;
  GhostPenalty penalty_;
  const torch::optim::Optimizer& optimizer_;
  std::unique_ptr<Placed> placed_;
  std::int64_t step_ = 0;
  double match_factor_ = 1;
};

}  // namespace covnoise
