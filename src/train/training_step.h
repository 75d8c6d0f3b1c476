#pragma once
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/collector.h"
#include "covnoise/noise/injection.h"
#include "covnoise/train/config.h"
#include "covnoise/train/schedule.h"
#include "covnoise/train/sgd.h"
#include "covnoise/train/split.h"

namespace covnoise {

constexpr int kDivergedExit = 3;  ///< exit code of the Error that ends a training which diverged

/// What one step gave.
struct StepResult {
  StepContext context;
  double loss = 0;  ///< mean over the batch, before the step
  std::int64_t correct = 0;
  double grad_norm = 0;
  double noise_norm = 0;
  std::optional<double> fisher_trace;      ///< where the step had squares
  std::optional<double> covariance_trace;  ///< Tr S of per-example gradients, likewise
};

/// One step of training: the batch in slices, statistics, noise, update. Has no branch on the regime.
class TrainingStep {
 public:
  TrainingStep(const Config& config, Model& model, FlatParameters& parameters, const Schedule& schedule);

  /// Step `step` on the examples `indices` of the training set. A loss, gradient or weight that is not finite is an
  /// Error that names the parameter.
  StepResult run(std::int64_t step, const Loader& loader, const at::Tensor& indices);

  Sgd& sgd() { return sgd_; }
  Injection& injection() { return injection_; }

 private:
  StepContext context(std::int64_t step) const;

  const Config& config_;
  FlatParameters& parameters_;
  const Schedule& schedule_;
  Collector collector_;
  Injection injection_;
  Sgd sgd_;
};

InjectionOptions injection_options(const Config& config);

}  // namespace covnoise
