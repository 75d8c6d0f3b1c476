#pragma once
#include "covnoise/distributed/communicator.h"
#include "covnoise/nn/gradient_ready_hooks.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "train/loop/batch_passes.h"
#include "train/ranks/buckets.h"
#include "train/ranks/differenced_noise.h"
#include "train/ranks/running_statistics.h"
#include "train/ranks/shard.h"

namespace covnoise {

/// What the ranks of a training do with each other in a step, between the passes over their shares of the batch and the
/// update, which is the same on all of them: a sum over the ranks,
///
///   sum_r (share_r g_r + n_r),   share_r = M_r / M,   n_r = s sqrt(share_r) C_r^(1/2) xi_r
///
/// which is the gradient of the whole batch and noise of covariance s^2 sum_r share_r C_r = s^2 C: independent draws
/// add their covariances, so that noise costs no communication. In the update it goes differenced (DifferencedNoise).
/// Structures that need the whole batch (the trace, the mean gradient) are drawn after the sum, by the same counters on
/// every rank. The numbers for the metrics, and Tr F, stand before the gradient in the message.
///
/// The message is cut in buckets of whole layers. The sum of a bucket starts as soon as the last backward pass is
/// through with its layers, and its noise is in it; the first bucket, which has the numbers, comes last. Where that
/// pass is captured, noise and sum stay aside of it: they are done anew between two parts of each replay. One bucket is
/// left where the noise or its statistics take another pass (draws of examples, labels of the model), and where noise
/// is a message of its own.
///
/// With train.clip_norm the gradient's norm is wanted before the noise is in it: noise that ranks draw then is a second
/// message.
class GradientAllReduce {
 public:
  GradientAllReduce(Communicator& communicator, const Config& config, Model& model, FlatParameters& parameters,
                    Injection& injection, const BucketOptions& buckets);

  /// This rank's share of a step's batch, before its passes.
  Shard begin(const StepContext& context);
  /// Before the last backward pass of the share, whether it is done or captured.
  void expect_last(GradientPass& pass, const BatchPasses::AddHostCallback& add_host_callback);
  /// The result of no passes, where a rank has no share.
  const PassedBatch& nothing() const { return nothing_; }
  /// From what the passes gave: the gradient of the whole batch in the parameters, `numbers` ([5]: those of
  /// PassedBatch, and how many ranks want to stop) of the whole as well. The norms of gradient and noise are estimates
  /// where the two came in one message: their product is taken for zero. Gives the noise that the update shall add.
  StepNoise combine(const GradientStatistics& statistics, at::Tensor& numbers, at::Tensor& noise_norm);

  void request_stop(bool stop) { stop_ = stop; }  ///< sent with the next steps
  Communicator& communicator() { return communicator_; }
  RunningStatistics& running() { return running_; }

  /// What this rank alone knows and a checkpoint must keep; and back.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  void load_state(const std::vector<std::pair<std::string, at::Tensor>>& state);

 private:
  struct Bucket {
    FlatParameters parameters;
    DifferencedNoise differenced;
    std::size_t missing = 0;  // parameters that the backward pass still has to give
  };
  void parameter_done(std::size_t parameter);
  void send(std::size_t bucket, const GradientStatistics& statistics);
  at::Tensor message_of(std::size_t bucket) const;
  at::Tensor own_noise(const GradientStatistics& statistics);
  void write_numbers(const at::Tensor& numbers);
  StepNoise common_noise(const at::Tensor& trace);

  Communicator& communicator_;
  FlatParameters& parameters_;
  Injection& injection_;
  Sharding sharding_;
  RunningStatistics running_;
  bool separate_;  // noise in a message of its own
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // of each parameter
  std::unique_ptr<GradientReadyHooks> hooks_;
  Shard shard_;
  PassedBatch nothing_;
  at::Tensor message_, trace_;
  bool stop_ = false;

  // While the last backward pass is running or being captured.
  GradientPass* pass_ = nullptr;
  BatchPasses::AddHostCallback add_host_callback_;
  std::size_t unfinished_ = 0;  // buckets, the first ones

  // Of the current step.
  StepContext context_;
  std::size_t unsent_ = 0;                    // buckets, the first ones
  at::Tensor noise_;                          // of the bucket sent last
  at::Tensor added_squares_, noise_squares_;  // sums over what was sent
};

}  // namespace covnoise
