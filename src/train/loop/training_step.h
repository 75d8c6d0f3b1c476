#pragma once
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "covnoise/noise/penalty.h"
#include "covnoise/train/config.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/diverged.h"
#include "covnoise/train/internal/split.h"
#include "covnoise/train/optimizer.h"
#include "covnoise/train/schedule.h"
#include "train/loop/example_source.h"
#include "train/loop/weight_noise.h"
#include "train/ranks/gradient_all_reduce.h"

namespace covnoise {

/// The results of one step.
struct StepResult {
  StepContext context;
  double loss = 0;  ///< mean over the batch, before the step; with noise in the weights at theta + n
  std::int64_t correct = 0;
  double grad_norm = 0;
  double noise_norm = 0;                   ///< before clipping; only in a step with details, as the next four.
                                           ///< With noise in the weights: of the noise that the gradient was taken with
  double clip_factor = 1;                  ///< of the gradient; 1 where nothing was clipped
  double noise_clip_factor = 1;            ///< of the noise: the same, or its own with noise.clip_norm
  double weight_norm = 0;                  ///< of all parameters, after the step
  double scale = 0;                        ///< s of the noise
  std::optional<double> fisher_trace;      ///< if the step collected squares
  std::optional<double> covariance_trace;  ///< Tr S of per-example gradients, likewise, but not of labels of the model
  std::optional<double> penalty;           ///< estimate of the ghost penalty, in a step with details that has it
  std::optional<double> penalty_norm;      ///< norm of what it added to the gradient, likewise
  bool stop = false;                       ///< whether any rank wants to stop
};

/// One step of training: gradient pass, noise, update. It has no branch on the regime.
class TrainingStep {
 public:
  /// `communicator` connects the ranks that share each batch; may be null.
  TrainingStep(const Config& config, torch::nn::Module& module, GradientPass::Loss loss,
               std::unique_ptr<NoiseStructure> structure, FlatParameters& parameters, const Schedule& schedule,
               Communicator* communicator = nullptr, const BucketOptions& buckets = {});
  /// The same for a network of the table.
  TrainingStep(const Config& config, Model& model, FlatParameters& parameters, const Schedule& schedule,
               Communicator* communicator = nullptr, const BucketOptions& buckets = {});

  /// Step `step` on the examples `indices` of the training set. On a GPU it may still be running when this returns.
  /// `next`: the examples of the step after it, if known, to read ahead.
  void launch(std::int64_t step, const ExampleSource& source, const at::Tensor& indices, bool details,
              const at::Tensor& next = {});
  void launch(std::int64_t step, const Loader& loader, const at::Tensor& indices, bool details) {
    launch(step, LoaderSource(loader), indices, details);
  }
  /// For passes over batches of this size: a ghost batch larger than the batch is all of it. Each step calls it for its
  /// own; CUDA graphs, one for each size, keep what they were captured with.
  void set_ghost_batches(std::int64_t batch);
  /// The results of the steps launched since the last call; waits for them. A loss, gradient or weight that is not
  /// finite is an Error that names the step and the parameter.
  std::vector<StepResult> collect();

  /// Called on this thread before each micro-batch is loaded (on a GPU: before each batch); may throw.
  void set_before_micro_batch(std::function<void()> call) { before_micro_batch_ = std::move(call); }

  Optimizer& optimizer() { return *optimizer_; }
  Injection& injection() { return injection_; }
  GradientAllReduce* all_reduce() { return all_reduce_.get(); }                      ///< null in a single process
  WeightNoise* weight_noise() { return weight_noise_ ? &*weight_noise_ : nullptr; }  ///< null in other placements
  bool ever_sharp() const;  ///< whether train.sharpness moves the weights in any step
  bool has_noise(std::int64_t step) const { return injection_.scale(context(step)) != 0; }
  /// Whether weight_noise() has noise for the next step after so many steps.
  bool has_weight_noise(std::int64_t steps) const;

 private:
  struct Launched {
    StepContext context;
    bool squares = false, centred = false;
    bool model_labels = false;  // of the squares
    at::Tensor metrics;         // of StepMetrics
    at::Tensor details;         // if requested: noise norm, clipping factors of gradient and noise, weight norm, s
    at::Tensor penalty;         // if requested: its value, the norm of its gradient; undefined in a step without it
  };
  StepContext context(std::int64_t step) const;
  bool is_sharp(std::int64_t step) const;
  at::Tensor weights_of_pass(bool sharp) const;
  const GradientPass::Result& run_pass(const ExampleSource& source, const at::Tensor& indices, const at::Tensor& next,
                                       const StepContext& at, const Shard& shard,
                                       const GradientPass::GroupSigns& signs);
  StepResult result_of(const Launched& launched, const StepMetrics& metrics) const;

  const Config& config_;
  FlatParameters& parameters_;
  const Schedule& schedule_;
  Schedule matched_;  // of the small batch, for noise.scale = "match"
  GradientPass pass_;
  Injection injection_;
  GhostPenalty penalty_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientAllReduce> all_reduce_;
  std::optional<WeightNoise> weight_noise_;
  std::vector<std::pair<GhostBatchNorm2dImpl*, std::int64_t>> ghost_batches_;  // as the layers were made
  std::vector<Launched> launched_;
  std::function<void()> before_micro_batch_ = [] {};
};

}  // namespace covnoise
