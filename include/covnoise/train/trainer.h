#pragma once
#include "covnoise/core/safetensors.h"
#include "covnoise/data/dataset.h"
#include "covnoise/distributed/communicator.h"
#include "covnoise/train/bucket_options.h"
#include "covnoise/train/config.h"
#include "covnoise/train/evaluate.h"
#include "covnoise/train/if_damaged.h"
#include "covnoise/train/task.h"

#include <filesystem>
#include <functional>

namespace covnoise {

/// What train() needs besides the configuration.
struct TrainOptions {
  Config config;              ///< resolved (train/defaults.h)
  std::filesystem::path out;  ///< the run's folder
  DataSetByName data;         ///< called once, with data.name, after the configuration has been checked
  std::function<bool()> stop_requested = [] { return false; };  ///< called after every step
  /// Called before every micro-batch (on a GPU: every step) and every slice of an evaluation; if true, train() gives up
  /// the step it is in.
  std::function<bool()> stop_now = [] { return false; };
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< receives lines for the user
  bool progress_bar = false;                                                ///< on standard error
  Communicator* communicator = nullptr;  ///< ranks that train together; rank 0 writes. Null: one process
  BucketOptions buckets;                 ///< of their all-reduce
};

/// How train() ended.
enum class Outcome {
  kFinished,        ///< the last step was done
  kFinishedBefore,  ///< there was nothing left to do
  kInterrupted,     ///< a checkpoint was written
  kStoppedNow,      ///< within a step: the last checkpoint is the newest state
};

/// Trains in the folder `out`: starts a new run where it is empty, and resumes an unfinished run of the same
/// configuration. A run of another configuration is an Error that lists the differences. With several ranks only rank 0
/// reads and writes the folder; ranks whose configuration, program or data differ from rank 0's are refused.
Outcome train(const TrainOptions& options);

/// train() for a network, loss, examples and noise structure of your own: the same run folder with metrics, checkpoints
/// and resuming, the same ranks. Of the configuration, `model` and `data.name` are names to record; train.lr must be
/// set; options.data is not used. A run is resumed with the task that began it: what the network computes cannot be
/// compared.
class Trainer {
 public:
  Trainer(TrainOptions options, Task task);

  Outcome run();
  const Config& config() const { return options_.config; }  ///< resolved: it says which estimator the noise uses
  /// After `run`: the network that is evaluated and saved, with train.ema that of the averaged weights.
  torch::nn::Module& module() const;
  /// After `run`: on the test set, as the run itself does it. On each rank alone. accuracy 0: no right answers.
  Evaluation evaluate() const;

 private:
  TrainOptions options_;
  Task task_;
  std::shared_ptr<torch::nn::Module> module_;
};

/// A network of a run, as a checkpoint holds it.
struct TrainedModel {
  Config config;                 ///< of the run
  DataSource source;             ///< its data set
  std::shared_ptr<Model> model;  ///< in evaluation mode
  std::int64_t step = 0;         ///< steps done
};

/// Which checkpoint of a run.
enum class Which { kLast, kBest };
/// Loads a network onto `device` (run.device), whatever device it was trained on. `warn` gets a line for each damaged
/// checkpoint that is passed over, and if the data set is not the one of the training.
TrainedModel load_trained(const std::filesystem::path& run, Which which, const DataSetByName& data,
                          const std::function<void(const std::string&)>& warn, const std::string& device = "cpu",
                          IfDamaged damaged = IfDamaged::kRefuse);

/// The last network of a run, for an analysis: in float32 if it was trained with less.
TrainedModel load_for_analysis(const std::filesystem::path& run, const DataSetByName& data,
                               const std::function<void(const std::string&)>& warn, const std::string& device,
                               IfDamaged damaged = IfDamaged::kRefuse);

/// Steps after which the network was kept, in ascending order: as a checkpoint or as a snapshot (train.snapshot_every).
std::vector<std::int64_t> kept_steps(const std::filesystem::path& run);

/// Loads the network of such a step into `trained`; an Error lists the available steps. `warn` is told if a snapshot is
/// of an earlier version and has no checksum.
void load_step(
    TrainedModel& trained, const std::filesystem::path& run, std::int64_t step,
    const std::function<void(const std::string&)>& warn = [](const std::string&) {});

/// Parameters and buffers by name, and back. A name or shape that does not match is an Error.
std::vector<NamedTensor> model_tensors(const torch::nn::Module& model);
void load_model_tensors(torch::nn::Module& model, const std::vector<NamedTensor>& tensors);

}  // namespace covnoise
