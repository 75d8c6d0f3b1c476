#pragma once
#include "covnoise/core/error.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/collector.h"
#include "covnoise/noise/injection.h"
#include "covnoise/train/config.h"
#include "covnoise/train/schedule.h"
#include "covnoise/train/sgd.h"
#include "covnoise/train/split.h"
#include "train/batch_passes.h"
#include "train/exchange.h"

namespace covnoise {

constexpr int kDivergedExit = 3;  ///< exit code of the Error that ends a training which diverged

/// Ends a training which diverged.
class Diverged : public Error {
 public:
  Diverged(const std::string& message, std::int64_t step) : Error(message, kDivergedExit), step_(step) {}
  std::int64_t step() const { return step_; }

 private:
  std::int64_t step_;
};

/// What one step gave.
struct StepResult {
  StepContext context;
  double loss = 0;  ///< mean over the batch, before the step
  std::int64_t correct = 0;
  double grad_norm = 0;
  double noise_norm = 0;                   ///< of a step with details
  std::optional<double> fisher_trace;      ///< where the step had squares
  std::optional<double> covariance_trace;  ///< Tr S of per-example gradients, likewise
  bool stop = false;                       ///< whether some rank of several wants to stop
};

/// One step of training: the batch in slices, statistics, noise, update. Has no branch on the regime.
class TrainingStep {
 public:
  /// `communicator`: of the ranks that share each batch; may be null.
  TrainingStep(const Config& config, Model& model, FlatParameters& parameters, const Schedule& schedule,
               Communicator* communicator = nullptr, const BucketOptions& buckets = {});

  /// Step `step` on the examples `indices` of the training set. On a GPU it may still be going on afterwards.
  void launch(std::int64_t step, const Loader& loader, const at::Tensor& indices, bool details);
  /// What the steps gave that were launched since the last call; waits for them. A loss, gradient or weight that was
  /// not finite is an Error that names the step and the parameter.
  std::vector<StepResult> collect();

  Sgd& sgd() { return sgd_; }
  Injection& injection() { return injection_; }
  Exchange* exchange() { return exchange_.get(); }  ///< null in a training of one process

 private:
  struct Launched {
    StepContext context;
    bool squares = false, centred = false;
    at::Tensor numbers;     // of PassedBatch
    at::Tensor noise_norm;  // where details were asked for and there was noise
  };
  StepContext context(std::int64_t step) const;
  const PassedBatch& pass(const Needs& needs, const Loader& loader, const at::Tensor& indices, const StepContext& at);
  StepResult result_of(const Launched& launched, const double* numbers) const;

  const Config& config_;
  FlatParameters& parameters_;
  const Schedule& schedule_;
  Collector collector_;
  BatchPasses passes_;
  Injection injection_;
  Sgd sgd_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<Launched> launched_;
};

InjectionOptions injection_options(const Config& config);

}  // namespace covnoise
