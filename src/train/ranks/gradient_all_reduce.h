#pragma once
#include "covnoise/distributed/communicator.h"
#include "covnoise/nn/gradient_ready_hooks.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "train/ranks/buckets.h"
#include "train/ranks/differenced_noise.h"
#include "train/ranks/running_statistics.h"
#include "train/ranks/shard.h"

namespace covnoise {

/// The all-reduce of a step, between the passes of the ranks over their shards of the batch and the update, which is
/// the same on all ranks:
///
///   sum_r (share_r g_r + n_r),   share_r = M_r / M,   n_r = s sqrt(share_r) C_r^(1/2) xi_r
///
/// which is the gradient of the whole batch plus noise of covariance s^2 sum_r share_r C_r = s^2 C: the covariances of
/// independent draws add up, so that noise costs no communication. In the update it is sent differenced
/// (DifferencedNoise). Structures that need the whole batch (the trace, the mean gradient) are drawn after the sum,
/// with the same counters on every rank. A header before the gradient carries the metrics and Tr F.
///
/// The message is cut into buckets of whole layers. The all-reduce of a bucket starts as soon as the last backward pass
/// has finished with its layers and its noise has been added; the first bucket, which has the header, comes last. If
/// that pass is a CUDA graph, noise and all-reduce are host callbacks between two parts of each replay. A single bucket
/// is used if the noise or its statistics need another pass (draws of examples, labels of the model), or if the noise
/// is a message of its own.
///
/// With train.clip_norm the update clips the sum by its norm. In the update placement with momentum, this sum must be
/// free of the differenced noise of earlier steps, which has been clipped already, and for a matched temperature the
/// norms of gradient and noise decide the scale: the noise of the ranks is then a second message. So it is in the
/// update of AdamW, which is not linear in the gradient, where sharpness takes the gradient along the momentum buffer,
/// and with noise in the weights.
class GradientAllReduce {
 public:
  GradientAllReduce(Communicator& communicator, const Config& config, torch::nn::Module& model,
                    FlatParameters& parameters, Injection& injection, const BucketOptions& buckets);

  /// This rank's shard of a step's batch, before its passes.
  Shard begin(const StepContext& context);
  /// Before the last backward pass of the shard, whether it runs or is captured.
  void expect_last(GradientPass& pass, const GradientPass::AddHostCallback& add_host_callback);
  /// The result of a rank without a shard.
  const GradientPass::Result& nothing() const { return nothing_; }
  /// From what the passes gave: the gradient of the whole batch in the parameters, and the whole batch's `metrics`
  /// (StepMetrics) and `noise_norm`. The norms of gradient and noise are estimates where the two came in one message:
  /// their product is taken as zero. Returns the noise that the update has to add.
  StepNoise combine(const GradientStatistics& statistics, at::Tensor& metrics, at::Tensor& noise_norm);

  void request_stop(bool stop) { stop_ = stop; }  ///< sent with the next steps
  Communicator& communicator() { return communicator_; }
  RunningStatistics& running() { return running_; }

  /// What only this rank knows and a checkpoint must keep; and back.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  void load_state(const std::vector<std::pair<std::string, at::Tensor>>& state);

 private:
  struct Bucket {
    FlatParameters parameters;
    DifferencedNoise differenced;
    std::size_t missing = 0;  // parameters whose gradient is not complete yet
  };
  void parameter_done(std::size_t parameter);
  void send(std::size_t bucket, const GradientStatistics& statistics);
  at::Tensor message_of(std::size_t bucket) const;
  at::Tensor own_noise(const GradientStatistics& statistics);
  void write_header(const at::Tensor& metrics);
  at::Tensor sum_over_ranks(const at::Tensor& own, double factor);
  StepNoise common_noise(const GradientStatistics& own, const at::Tensor& trace);

  Communicator& communicator_;
  FlatParameters& parameters_;
  Injection& injection_;
  Sharding sharding_;
  RunningStatistics running_;
  bool separate_;  // noise as a message of its own
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // of each parameter
  std::unique_ptr<GradientReadyHooks> hooks_;
  Shard shard_;
  GradientPass::Result nothing_;
  at::Tensor message_, trace_;
  bool stop_ = false;

  // While the last backward pass is running or being captured.
  GradientPass* pass_ = nullptr;
  GradientPass::AddHostCallback add_host_callback_;
  std::size_t unfinished_ = 0;  // buckets, the first ones

  // Of the current step.
  StepContext context_;
  std::size_t unsent_ = 0;                    // buckets, the first ones
  at::Tensor noise_;                          // of the bucket sent last
  at::Tensor added_squares_, noise_squares_;  // sums over what was sent
};

}  // namespace covnoise
