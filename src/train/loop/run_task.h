#pragma once
#include "covnoise/data/dataset.h"
#include "covnoise/train/config.h"
#include "covnoise/train/evaluate.h"
#include "covnoise/train/task.h"
#include "train/loop/example_source.h"

#include <memory>

namespace covnoise {

/// What a run trains, on its device.
struct RunTask {
  std::shared_ptr<torch::nn::Module> module;
  GradientPass::Loss loss;
  std::unique_ptr<NoiseStructure> structure;
  std::unique_ptr<ExampleSource> train, test, validation;  ///< the last may be null
  double guessing_loss;  ///< mean loss of a network that knows nothing; infinite: unknown
  const char* unit;      ///< what an example is called

  bool answers = true;  ///< whether answers are right or wrong: whether there is an accuracy
};

/// A network of the table on a data set.
RunTask make_run_task(const Config& config, const DataSource& source, at::Device device);
/// The caller's own.
RunTask make_run_task(const Config& config, const Task& task, at::Device device);

/// The losses of the first two training examples, in evaluation mode and without gradients: what a pass does, before
/// any.
Losses losses_of_first(const RunTask& run);

/// The test set of the caller's own task, as its run evaluates it.
std::unique_ptr<ExampleSource> test_source(const Config& config, const Task& task, at::Device device);

/// Settles what a recipe leaves open for a network that is not in the table: the ghost batch, which is that
/// of its layers, the micro-batch, the group and the estimator of the noise. An Error if the learning rate is left
/// open, or if its layers cannot normalise the batches.
void resolve_own_defaults(Config& config, const Task& task, torch::nn::Module& module);
/// The task's own, or the one that the options name.
std::unique_ptr<NoiseStructure> structure_of(const Task& task, const NoiseOptions& noise);

/// Mean loss and accuracy over a source, as evaluate().
Evaluation evaluate_task(torch::nn::Module& module, const GradientPass::Loss& loss, const ExampleSource& source,
                         Communicator* ranks);

}  // namespace covnoise
