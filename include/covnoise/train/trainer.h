#pragma once
#include "covnoise/core/safetensors.h"
#include "covnoise/data/dataset.h"
#include "covnoise/distributed/communicator.h"
#include "covnoise/train/bucket_options.h"
#include "covnoise/train/config.h"
#include "covnoise/train/evaluate.h"

#include <filesystem>
#include <functional>

namespace covnoise {

struct TrainOptions {
  Config config;              ///< resolved (train/defaults.h)
  std::filesystem::path out;  ///< the run's folder
  DataSetByName data;         ///< called once, with data.name, after the configuration has been checked
  std::function<bool()> stop_requested = [] { return false; };              ///< asked after every step
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< lines for people
  bool progress_bar = false;
  Communicator* communicator = nullptr;  ///< of the ranks that train together; rank 0 writes. Null: this process alone
  BucketOptions buckets;                 ///< of their sums
};

enum class Outcome {
  kFinished,
  kFinishedBefore,  ///< there was nothing left to do
  kInterrupted,     ///< a checkpoint was written
};

/// Trains in the folder `out`: a new run where it is empty; goes on with an unfinished one of the same configuration;
/// an Error that lists the difference where it holds another configuration. Of several ranks rank 0 alone reads and
/// writes the folder; those whose configuration, program or data differ from its are refused.
Outcome train(const TrainOptions& options);

/// A network of a run as its checkpoint left it.
struct TrainedModel {
  Config config;
  DataSource source;
  std::shared_ptr<Model> model;
  std::int64_t step = 0;
};

enum class Which { kLast, kBest };
/// On `device` (run.device), whatever it was trained on.
TrainedModel load_trained(const std::filesystem::path& run, Which which, const DataSetByName& data,
                          const std::function<void(const std::string&)>& warn, const std::string& device = "cpu");

/// The last network of a run for an analysis: in float32 where it was trained with less.
TrainedModel load_for_analysis(const std::filesystem::path& run, const DataSetByName& data,
                               const std::function<void(const std::string&)>& warn, const std::string& device);

/// Steps after which the network was kept, ascending: as a checkpoint or as a snapshot (train.snapshot_every).
std::vector<std::int64_t> kept_steps(const std::filesystem::path& run);

/// Puts the network of such a step into `trained`; an Error lists the steps there are.
void load_step(TrainedModel& trained, const std::filesystem::path& run, std::int64_t step);

/// Parameters and buffers under their names, and back. A name or shape that does not fit is an Error.
std::vector<NamedTensor> model_tensors(const torch::nn::Module& model);
void load_model_tensors(torch::nn::Module& model, const std::vector<NamedTensor>& tensors);

}  // namespace covnoise
