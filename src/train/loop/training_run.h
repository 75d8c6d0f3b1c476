#pragma once
#include "covnoise/core/internal/progress.h"
#include "covnoise/nn/internal/other_weights.h"
#include "covnoise/ops/device.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/trainer.h"
#include "train/files/provenance.h"
#include "train/loop/health.h"
#include "train/loop/initial_weights.h"
#include "train/loop/run_progress.h"
#include "train/loop/run_task.h"
#include "train/loop/training_step.h"
#include "train/loop/weight_average.h"
#include "train/ranks/rank_states.h"

#include <chrono>

namespace covnoise {

/// Where a run writes; only rank 0 has them.
struct RunFiles {
  CheckpointStore* store = nullptr;
  MetricsWriter* metrics = nullptr;
  Provenance provenance;
};

/// Thrown where TrainOptions::stop_now ends a step or an evaluation.
struct StoppedNow {};

/// The training loop of one run's folder.
class TrainingRun {
 public:
  /// `make` is called once, in the stream of the run.
  TrainingRun(const TrainOptions& options, const std::function<RunTask(at::Device)>& make);

  /// Starts from the weights in train.init; returns a line for the user.
  std::string load_initial_weights();
  /// Resumes from a checkpoint of this run.
  void restore(const RankCheckpoint& latest);
  /// From now on the network is the one that was last evaluated or saved, with the running statistics of all ranks and
  /// the averaged weights, and is trained no more. All ranks call it.
  void leave_evaluated_network();
  bool finished() const { return progress_.step == schedule_.total_steps(); }
  Outcome run(const RunFiles& files);
  std::string summary() const;  ///< one line for the user
  const RunTask& task() const { return task_; }

 private:
  using Clock = std::chrono::steady_clock;
  void one_step(MetricsWriter* metrics);
  const at::Tensor& order_of(std::int64_t epoch);  ///< in which the epoch takes the training examples
  StepResult collect(MetricsWriter* metrics);      ///< results of the launched steps; returns the last
  bool stop_requested();                           ///< the same on all ranks
  void end_epoch(std::int64_t epoch, const RunFiles& files);
  /// The evaluation as an epoch's record has it; empty, with `judged` unchanged, if the epoch is not evaluated.
  nlohmann::ordered_json evaluation(std::int64_t epoch, double& judged);
  void log_step(const StepResult& result, MetricsWriter& metrics);
  /// Says what is not healthy, in the output and the metrics.
  void check_health(std::int64_t epoch, double train_loss, MetricsWriter* metrics);
  void restore_optimizer(const LoadedCheckpoint& latest);
  void save(const RunFiles& files, bool scheduled);
  void save_snapshot();
  /// For evaluation and saving: the running statistics of all ranks.
  std::unique_ptr<RunningStatistics::Whole> whole_statistics();
  /// For evaluation and saving: the averaged weights in the network, with statistics of their own; null without
  /// train.ema.
  std::unique_ptr<OtherWeights> averaged_weights();
  /// The running statistics at the averaged weights, which the network has: measured once after a step, and kept for
  /// what else evaluates or saves them. Each rank has its own copy, because not all of them save.
  void measure_statistics_again();
  /// By passes over the first batches of this epoch.
  void measure_statistics_now();
  double images_per_second() const;
  Evaluation evaluate_on(const ExampleSource& source);
  GradientPass::Loss interruptible_loss();  ///< for passes outside a step
  void add_accuracy(nlohmann::ordered_json& record, const char* key, double accuracy) const;  ///< if there is one
  void check_stop_now() const;

  const TrainOptions& options_;
  const Config& config_;
  at::Device device_;
  DeviceStream stream_;
  RunTask task_;
  Schedule schedule_;
  FlatParameters parameters_;
  std::string noise_text_;  // which noise, for the first line
  TrainingStep step_;
  Health health_;
  std::optional<WeightAverage> average_;
  std::int64_t measured_step_ = -1;   // after which statistics were measured last,
  std::vector<at::Tensor> measured_;  // and what they were
  Progress progress_;
  bool stop_agreed_ = false;  // by several ranks
  at::Tensor order_;          // of order_epoch_
  std::int64_t order_epoch_ = -1;
  double training_seconds_ = 0;  // of the current epoch in this process, without evaluation
  std::int64_t training_images_ = 0;
  double seconds_before_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace covnoise
